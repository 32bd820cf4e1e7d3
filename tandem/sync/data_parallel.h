// sync/data_parallel.h: a training loop of your own on several processes, like
// torch.nn.parallel.DistributedDataParallel in Python.
//
//     const comm::World world = comm::open_world(comm::launcher_environment(), {});
//     sync::DataParallel parallel(model, *world.group);                      // all start from rank 0's model
//     torch::optim::Adam optimizer(model->parameters());
//     for (const Batch& batch : part_of(data, world.rank, world.size)) {
//       parallel.backward(loss_of(*model, batch), batch.rows);
//       parallel.average();                                                  // .grad is the mean over all ranks
//       optimizer.step();
//     }
//     parallel.finish();                                                     // also when others have more batches
//
// With optimizer options, step() stands for average() and optimizer.step(): one fused update of all parameters. Across
// a network, on the CPU, it updates those whose gradients have come while it waits for the others, unless
// max_grad_norm, a divisor but kTotal, GradientCheck::kEachReplica or a compression ask for all gradients first; this
// takes as much memory as the parameters and the optimizer's moments once more (early_update.h).
//
// The mean is over all rows, however many each rank has: the sum of rows x gradient over all ranks, divided by the
// number of all rows. A parameter that no rank's loss reached has no gradient and is left alone; one that the losses of
// some ranks reached gets the sum of these, divided by all rows. Gradients of Embedding(sparse) stay sparse. Floating
// buffers (batch norm) become the mean of the ranks'. zero_grad() is not needed: the first pass after a step overwrites
// .grad, which until then holds what the step left there.
//
// Parameters and gradients are views into flat memory. torch::load() into the module, and freezing and unfreezing a
// layer on all ranks, work as ever; moving the module to another device or dtype, and registering a parameter, are
// errors at the next backward(). What trains ranks apart is an error at once: loss.backward() without this object, an
// optimizer's step between backward() and average(), zero_grad() or changes of a gradient between them. Not seen is
// torch::nn::utils::clip_grad_norm_() there, which LibTorch does not count as a change: clip after average().
//
// Buffers: floating ones become the mean of the ranks', others (integers, Bool) take rank 0's values, at each step. A
// forward pass in train() mode that no step follows leaves each rank with running statistics of its own, which a
// checkpoint of one rank would keep: call eval() before it, or synchronise() after it.
//
// Threads: one, that of the member of `group`. Blocking: the constructor, average(), step(), finish(), synchronise()
// and require_same_state() wait for all ranks until `patience`. Errors: ConfigError when the models differ; PeerLost,
// DeadlineExceeded or GroupAborted when a rank fails; RunError for gradients that are not finite, and for ranks whose
// state differs. Parameters and optimizer state are then those of the last finished step.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/comm/departure.h"
#include "tandem/sync/data_parallel_report.h"
#include "tandem/sync/mean/early_update.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/step_clock.h"
#include "tandem/sync/strategy.h"

namespace tandem::sync {

/// What a loss is of.
struct Pass {
  double rows = 1;  // the loss is their mean
  // kFurther: rows that no other pass of the step has had, so that the step takes the mean over all of them. kSame: a
  // further loss over the rows that the step's passes have had, to be added to theirs (a GAN's loss of real and of fake
  // images, a penalty); `rows` is not looked at.
  enum class Counted { kFurther, kSame } counted = Counted::kFurther;
  bool retain_graph = false, create_graph = false;  // as in Tensor::backward()
  std::vector<at::Tensor> inputs{};                 // the only ones that get gradients; none: all
};

struct DataParallelOptions {
  std::vector<model::OptimizerOptions> optimizer{};  // for step(): one, or one a parameter group; none: average() only
  model::FlatParameters::Options flat{};             // parameter groups, and parameters whose gradients are sparse
  MeanOptions mean{};                                // clipping by global norm; what a sum is divided by
  MakeCompression compression{};                     // how gradients travel; alone, nothing travels
  std::int64_t check_state_every = 1000;             // steps between two calls of require_same_state(); 0: none
  Clock::duration patience = std::chrono::minutes(5);
};

class DataParallel {
 public:
  /// `group` is not owned, `module` shared. Every rank constructs with the same options; rank 0's values of parameters,
  /// buffers and optimizer state become everybody's.
  DataParallel(const std::shared_ptr<torch::nn::Module>& module, comm::Group& group, DataParallelOptions options = {});

  /// Where an exception ends the object, the others are told (comm/departure.h). Says on stderr when the object ends
  /// without a step, on more than one rank, and no exception ends it.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Backward pass of the mean loss over `rows` rows, the last before average() or step(): across a network, gradients
  /// are summed over the ranks while it still runs. Nothing may write to a gradient after the pass has made it. A loss
  /// that is not defined stands for skip(). Throws ConfigError for rows <= 0, when the module is not as it was bound,
  /// and when a gradient was changed since the last pass. After a pass that throws within autograd every further call
  /// throws RunError: the others wait for what this rank cannot give.
  void backward(const at::Tensor& loss, double rows = 1) { backward(loss, Pass{.rows = rows}); }
  void backward(const at::Tensor& loss, const Pass& pass);
  /// Makes a pass before the last one of a step: its gradients are added, and nothing is exchanged.
  void accumulate(const at::Tensor& loss, double rows = 1) { accumulate(loss, Pass{.rows = rows}); }
  void accumulate(const at::Tensor& loss, const Pass& pass);
  /// In place of all passes of a step: this rank has no rows in it, and takes part with a weight of 0.
  void skip();

  /// For optimizers that ask for the loss several times in a step, as torch::optim::LBFGS: a closure that makes the
  /// pass of `loss`, a mean over `rows` rows, then average(), and returns the mean loss over all ranks, by which all of
  /// them decide alike. `loss` and this object must outlive it.
  [[nodiscard]] std::function<at::Tensor()> closure(std::function<at::Tensor()> loss, double rows = 1);

  /// Makes every parameter's .grad the (clipped) mean over all rows of all ranks.
  StepReport average();
  /// Updates the parameters with that mean. The learning rate is multiplied by `lr_factor`, the same on all ranks.
  StepReport step(double lr_factor = 1);

  /// This rank has no more batches. Takes part in the others' steps until all have finished; every rank then holds the
  /// last parameters. With step(), state stays equal on the way, and steps of all ranks together may follow. With
  /// average(), parameters and buffers are taken from the rank that made the most steps; the optimizers, which are not
  /// known here, then differ where the steps did, and further passes throw RunError. Throws ConfigError when no rank
  /// has made a step.
  void finish();

  /// Gives all ranks rank 0's parameters, buffers and optimizer state once more: after a checkpoint was loaded on rank
  /// 0 alone, or each epoch where the ranks' own optimizers round differently (with check_state_every = 0,
  /// which else finds that). Between steps.
  void synchronise();

  /// Throws RunError naming tensor and ranks unless all ranks hold the same parameters, buffers and optimizer state; of
  /// buffers that alone differ, it says that they were written to since the last step.
  /// Every `check_state_every` steps, average() does so for the parameters with which the gradients were made, and
  /// step() for those that it has made; average() no longer when a rank has finished, because the parameters there are
  /// older.
  void require_same_state();

  /// What the steps took on this rank since the last call, or since construction, as a mean, and the last one: seconds
  /// of forward, backward and communication, and how much of this was hidden; bytes, and sizes of buckets. Waits for
  /// nobody. Between steps, the next one begins with this call: what came before it (an evaluation, a checkpoint) is in
  /// no report.
  DataParallelReport report();

  /// The tensors that this rank's compression remembers; the live ones, see gradient_compression.h. Empty without one.
  [[nodiscard]] model::NamedTensors compression_state();

  /// Valid until the next pass, which makes it anew where a parameter was unfrozen.
  [[nodiscard]] Replica& replica() { return bound_->replica; }

 private:
  // What is made of the parameters that train.
  struct Bound {
    Bound(const std::shared_ptr<torch::nn::Module>& module, comm::Group& group, const DataParallelOptions& options);
    Replica replica;
    const std::vector<std::vector<at::Tensor>> slots;  // the parameters, by flat buffer and slot
    GradientMean mean;
    std::optional<EarlyUpdate> early;  // where the gradients allow it
  };
  [[nodiscard]] Limits limits() const { return {.deadline = Deadline::after(options_.patience), .stop = {}}; }
  void open(const at::Tensor& loss, const Pass& pass);
  void bind_unfrozen();
  void run_backward(const at::Tensor& loss, const Pass& pass);
  void require_no_failed_pass() const;
  void close();
  [[nodiscard]] std::optional<MeanGradient> form_without_mine();
  [[nodiscard]] MeanGradient form_skipped();
  void count_step(const MeanGradient& mean);
  void put_mean_in_place(double scale);
  // Returns what has to be done while the sums of a step without early updates come.
  [[nodiscard]] WhileSumsCome meanwhile(const Limits& limits);

  const DataParallelOptions options_;
  comm::Group& group_;
  const comm::UnderWay under_way_;
  std::unique_ptr<Bound> bound_;
  // What this step has had. kFailed: a pass threw, so its gradients are incomplete, and sums may be under way.
  enum class Stage { kNone, kAccumulating, kLast, kSkipped, kFailed } stage_ = Stage::kNone;
  double rows_ = 0, loss_ = 0;  // since the last step: rows, and their losses' sum
  std::int64_t steps_ = 0;
  StepClock clock_;
  enum class Optimizers { kEqual, kDiffer } optimizers_ = Optimizers::kEqual;
};

}  // namespace tandem::sync
