#include "tandem/sync/data_parallel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/optimizer_entries.h"
#include "tandem/model/reached_hook.h"
#include "tandem/sync/rank_placement.h"

namespace tandem::sync {
namespace {

// Plan: a rank is a replica with one shard. open() binds the gradients before the first pass of a step; backward() and
// accumulate() add rows x gradient; close() ends the passes; then the mean over all ranks is formed, and either put
// into every .grad (average) or applied (step). stage_ guards that order, and a failed pass ends the object's use.

// Gradients come from backward passes alone, so their memory need not be zeroed before.
model::FlatParameters::Options flat_of(model::FlatParameters::Options options) {
  options.start = model::FlatParameters::Options::Start::kNothing;
  return options;
}

// The module's parameters, by flat buffer and slot.
std::vector<std::vector<at::Tensor>> tensors_of_slots(Replica& replica) {
  const auto named = replica.module().named_parameters();
  std::vector<std::vector<at::Tensor>> tensors;
  for (const model::FlatBuffer& buffer : replica.parameters().buffers()) {
    std::vector<at::Tensor>& of_buffer = tensors.emplace_back();
    for (const model::ParameterSlot& slot : buffer.slots) of_buffer.push_back(named[slot.name]);
  }
  return tensors;
}

constexpr const char* kLoop =
    "\n    parallel.backward(loss, rows);   // in place of loss.backward()"
    "\n    parallel.average();              // .grad is now the mean over all ranks"
    "\n    optimizer.step();";

void require_loss(const at::Tensor& loss) {
  if (loss.defined() && loss.numel() == 1 && loss.requires_grad()) return;
  throw ConfigError(
      concat("a backward pass takes the mean loss over the rows, a scalar with a gradient, and got ",
             loss.defined() ? concat("a tensor ", loss.sizes(), loss.requires_grad() ? "" : " without one") : "none",
             "; a rank without rows in this step calls skip()"));
}

[[noreturn]] void fail_stray_pass(const std::string& parameter) {
  throw ConfigError(concat("a backward pass that DataParallel does not know has reached parameter \"", parameter,
                           "\": its gradient would be this rank's alone, and the ranks would train apart. Write", kLoop,
                           "\nFor gradients that are not for a step, use torch::autograd::grad(), which leaves .grad "
                           "alone."));
}

}  // namespace

DataParallel::Bound::Bound(const std::shared_ptr<torch::nn::Module>& module, comm::Group& group,
                           const DataParallelOptions& options)
    : replica(rank_placement(module, group.rank(), group.size(), "DataParallel"), module, 0, options.optimizer,
              flat_of(options.flat)),
      slots(tensors_of_slots(replica)),
      mean(replica, group, options.mean, options.compression) {
  if (replica.has_optimizer() && mean.means_come_in_buckets()) early.emplace(replica, mean.group());
  replica.parameters().on_stray(fail_stray_pass);
}

DataParallel::DataParallel(const std::shared_ptr<torch::nn::Module>& module, comm::Group& group,
                           DataParallelOptions options)
    : options_(std::move(options)), group_(group), bound_(std::make_unique<Bound>(module, group, options_)) {
  if (options_.check_state_every < 0)
    throw ConfigError(concat("check_state_every is ", options_.check_state_every, "; give steps, or 0 for no check"));
  require_same_model(bound_->replica, group_, limits());
  broadcast_state(bound_->replica, group_, 0, limits());
  clock_.restart();
}

// A frozen parameter is to train from now on: it gets its place in flat memory. All ranks do so in the same step, or
// their collectives differ and say so. Moments and counts of steps of the others are carried over.
void DataParallel::bind_unfrozen() {
  const std::string unfrozen = bound_->replica.parameters().first_unfrozen();
  if (unfrozen.empty()) return;
  if (bound_->mean.compression() != nullptr) {
    throw ConfigError(concat("parameter \"", unfrozen, "\" was frozen when DataParallel was made; with a compression, ",
                             "which remembers what it has not sent, make DataParallel anew after unfreezing"));
  }
  std::map<std::string, model::OptimizerEntry> before;
  double rate = 0;
  if (bound_->replica.has_optimizer()) {
    rate = bound_->replica.optimizer().learning_rate();
    before = model::optimizer_entries(bound_->replica.optimizer(), bound_->replica.parameters());
  }
  const std::shared_ptr<torch::nn::Module> module = bound_->replica.module().shared_from_this();
  bound_.reset();
  bound_ = std::make_unique<Bound>(module, group_, options_);
  require_same_model(bound_->replica, group_, limits());
  if (before.empty()) return;
  const at::NoGradGuard no_grad;
  model::Optimizer& optimizer = bound_->replica.optimizer();
  for (auto& [name, entry] : model::optimizer_entries(optimizer, bound_->replica.parameters())) {
    const auto old = before.find(name);
    if (old == before.end()) continue;
    for (std::size_t m = 0; m < entry.moments.size(); ++m) entry.moments[m].second.copy_(old->second.moments[m].second);
    entry.steps.copy_(old->second.steps);
  }
  optimizer.set_learning_rate(rate);
  optimizer.state_changed();
}

DataParallel::~DataParallel() {
  if (under_way_.another()) comm::leave_by_exception(group_);
  if (under_way_.another() || steps_ > 0 || group_.size() == 1) return;
  std::cerr << concat("tandem: a DataParallel ends without a step on rank ", group_.rank(), " of ", group_.size(),
                      ". If this rank has trained, it has trained alone.\n");
}

void DataParallel::synchronise() {
  require_no_failed_pass();
  if (stage_ != Stage::kNone) throw ConfigError("synchronise() between a backward pass and its average() or step()");
  broadcast_state(bound_->replica, group_, 0, limits());
}

void DataParallel::open(const at::Tensor& loss, const Pass& pass) {
  require_no_failed_pass();
  require_loss(loss);
  if (pass.counted == Pass::Counted::kSame && stage_ != Stage::kAccumulating)
    throw ConfigError("a further loss over the same rows (Pass::Counted::kSame) comes after accumulate() of the first");
  if (pass.counted == Pass::Counted::kFurther && !(pass.rows > 0 && std::isfinite(pass.rows)))
    throw ConfigError(concat("a loss over ", pass.rows, " rows; a rank without rows in this step calls skip()"));
  if (stage_ == Stage::kLast || stage_ == Stage::kSkipped) {
    throw ConfigError(concat("a second pass after ", stage_ == Stage::kLast ? "backward()" : "skip()", " and before ",
                             "average() or step(). If an optimizer has made a step meanwhile, it took this rank's own ",
                             "gradients, and the ranks have trained apart. Write", kLoop,
                             "\nand accumulate() for all passes of a step but its last."));
  }
  if (optimizers_ == Optimizers::kDiffer) {
    throw RunError(
        "the ranks finished after different numbers of steps, so their optimizers differ now and the parameters would "
        "too; hand the optimizer to DataParallel and use step(), or give all ranks as many batches");
  }
  bound_->replica.parameters().require_same_module();
  if (stage_ == Stage::kAccumulating) bound_->replica.parameters().require_seal();
  const Stage before = std::exchange(stage_, Stage::kFailed);  // until the pass has ended
  clock_.begin_pass();
  if (before == Stage::kAccumulating) return;
  bind_unfrozen();
  bound_->mean.open(bound_->replica.placement().mine.begin);
}

void DataParallel::accumulate(const at::Tensor& loss, const Pass& pass) {
  comm::noting_failures([&] {
    open(loss, pass);
    run_backward(loss, pass);
  });
  stage_ = Stage::kAccumulating;
}

void DataParallel::backward(const at::Tensor& loss, const Pass& pass) {
  if (!loss.defined()) return skip();
  comm::noting_failures([&] {
    open(loss, pass);
    if (bound_->early) bound_->early->offer(pass.counted == Pass::Counted::kSame ? rows_ : rows_ + pass.rows);
    bound_->mean.begin_last_pass();
    run_backward(loss, pass);
  });
  stage_ = Stage::kLast;
}

void DataParallel::skip() {
  require_no_failed_pass();
  if (stage_ != Stage::kNone) throw ConfigError("skip() stands for all passes of a step, and this step has had one");
  stage_ = Stage::kSkipped;
  clock_.begin_pass();
}

std::function<at::Tensor()> DataParallel::closure(std::function<at::Tensor()> loss, double rows) {
  return [this, loss = std::move(loss), rows] {
    const at::Tensor mine = loss();
    backward(mine, rows);
    return at::full({}, average().loss, mine.defined() ? mine.options().requires_grad(false) : at::TensorOptions());
  };
}

// The gradient of rows x mean loss, so that gradients of ranks and passes add up to a sum over rows.
void DataParallel::run_backward(const at::Tensor& loss, const Pass& pass) {
  const bool further = pass.counted == Pass::Counted::kFurther;
  const double rows = further ? pass.rows : rows_;
  {
    const model::RunningPass running;
    torch::autograd::backward({loss}, {at::full({}, rows, loss.options()).expand_as(loss)},
                              pass.retain_graph || pass.create_graph, pass.create_graph, pass.inputs);
  }
  bound_->replica.parameters().seal();
  if (further) rows_ += rows;
  loss_ += rows * loss.item<double>();
  clock_.end_pass();
}

void DataParallel::require_no_failed_pass() const {
  if (stage_ != Stage::kFailed) return;
  throw RunError(
      "a backward pass of this step has failed, so its gradients are incomplete while the other ranks wait for them; "
      "end this rank, or leave out a batch before its backward pass");
}

// Ends the passes of this step. The mean weighs this rank by the rows of all its passes together.
void DataParallel::close() {
  require_no_failed_pass();
  if (stage_ == Stage::kNone) {
    throw ConfigError(concat("a step without a backward pass of its own on rank ", group_.rank(), ". Write", kLoop,
                             "\nA rank without rows in this step calls skip(), one without further batches finish()."));
  }
  const Stage stage = std::exchange(stage_, Stage::kFailed);
  bound_->mean.close(rows_, loss_ / rows_);
  if (bound_->early && stage != Stage::kLast) bound_->early->offer(rows_);  // passes of accumulate() alone
  stage_ = Stage::kNone;
  rows_ = loss_ = 0;
}

WhileSumsCome DataParallel::meanwhile(const Limits& limits) {
  if (!bound_->early) return {};
  return {.on_started = [this, limits] { bound_->early->wait_for_totals(limits); }, .on_summed = {}};
}

// This rank's part in the others' step.
std::optional<MeanGradient> DataParallel::form_without_mine() {
  if (bound_->early) bound_->early->offer(0, 1);
  const Limits its = limits();
  return bound_->mean.form_without_mine(steps_, its, meanwhile(its));
}

MeanGradient DataParallel::form_skipped() {
  stage_ = Stage::kNone;
  if (const std::optional<MeanGradient> mean = form_without_mine()) return *mean;
  throw ConfigError(concat("step ", steps_, ": no rank has rows in it; all have called skip() or finish()"));
}

StepReport DataParallel::average() {
  const Limits its = limits();
  const bool takes_part = stage_ != Stage::kSkipped;
  if (takes_part) close();
  const MeanGradient mean = takes_part ? bound_->mean.form(1, steps_, its, meanwhile(its)) : form_skipped();
  put_mean_in_place(mean.scale);
  count_step(mean);
  return mean.report_of(steps_);
}

StepReport DataParallel::step(double lr_factor) {
  if (!bound_->replica.has_optimizer())
    throw ConfigError(
        "step() needs DataParallelOptions::optimizer; with an optimizer of your own call average() and its step()");
  const bool takes_part = stage_ != Stage::kSkipped;
  if (takes_part) close();
  // With early updates (early_update.h) forming the mean and updating are one; else one comes after the other.
  const bool updates_early = takes_part && bound_->early;
  const MeanGradient mean = updates_early ? bound_->early->step(bound_->mean, lr_factor, steps_, limits())
                            : takes_part  ? bound_->mean.form(lr_factor, steps_, limits())
                                          : form_skipped();
  if (!updates_early) bound_->replica.optimizer().step(bound_->mean.sums(), mean.scale, mean.lr_factor);
  count_step(mean);
  return mean.report_of(steps_);
}

// The regular comparison of the ranks. Without an optimizer here, ranks that have left hold older parameters, and the
// comparison would fail for no fault.
void DataParallel::count_step(const MeanGradient& mean) {
  ++steps_;
  const bool is_due = options_.check_state_every != 0 && steps_ % options_.check_state_every == 0;
  if (is_due && (bound_->replica.has_optimizer() || mean.left == 0)) require_same_state();
  clock_.end_step(group_.size() == 1 ? 0 : mean.report.wait_seconds, mean.hidden_seconds, mean.bytes);
}

DataParallelReport DataParallel::report() {
  DataParallelReport report{.bucket_bytes = bound_->mean.bucket_bytes()};
  clock_.take(report);
  if (stage_ == Stage::kNone) clock_.restart();
  for (const model::FlatBuffer& buffer : bound_->replica.parameters().buffers()) {
    report.parameters += std::ssize(buffer.slots);
    std::int64_t elements = 0;
    for (const model::ParameterSlot& slot : buffer.slots) elements += slot.count;
    report.elements += elements;
    report.parameter_bytes += elements * static_cast<std::int64_t>(buffer.values.element_size());
  }
  return report;
}

// A parameter that no rank's loss reached has no .grad, so that optimizers pass it over.
void DataParallel::put_mean_in_place(double scale) {
  const at::NoGradGuard no_grad;
  const model::FlatParameters& parameters = bound_->replica.parameters();
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    if (!buffer.sparse) bound_->mean.sums().dense[b].mul_(scale);
    const at::Tensor presence = buffer.sparse ? at::Tensor() : bound_->mean.sums().presence[b].to(at::kCPU, at::kFloat);
    for (std::size_t slot = 0; slot < buffer.slots.size(); ++slot) {
      at::Tensor& grad = bound_->slots[b][slot].mutable_grad();
      if (buffer.sparse) {
        const at::Tensor& sum = bound_->mean.sums().sparse[b][slot];
        grad = sum.defined() ? sum.mul(scale) : at::Tensor();
      } else if (presence.const_data_ptr<float>()[slot] == 0) {
        grad.reset();
      } else if (!grad.defined()) {
        grad = bound_->mean.sums().views[b][slot];  // other ranks' losses reached it
      }
    }
  }
}

// Takes part in the others' steps with nothing to offer. Without an optimizer here, the ranks that finished early hold
// old parameters in the end: they get those of the rank that made the most steps.
void DataParallel::finish() {
  require_no_failed_pass();
  if (stage_ != Stage::kNone) throw ConfigError("finish() between a backward pass and its average() or step()");
  const std::int64_t own_steps = steps_;
  clock_.begin_pass();
  while (const std::optional<MeanGradient> mean = form_without_mine()) {
    if (bound_->replica.has_optimizer())
      bound_->replica.optimizer().step(bound_->mean.sums(), mean->scale, mean->lr_factor);
    count_step(*mean);
  }
  clock_.restart();
  if (steps_ == 0)
    throw ConfigError(
        concat("finish() when no rank has made a step: if they have trained, each has alone. Write", kLoop));
  if (bound_->replica.has_optimizer()) return;
  std::vector<double> all(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::vector<double>{static_cast<double>(own_steps)}, all, limits());
  const auto most = std::max_element(all.begin(), all.end());
  broadcast_state(bound_->replica, group_, static_cast<int>(most - all.begin()), limits());
  if (*std::ranges::min_element(all) != *most) optimizers_ = Optimizers::kDiffer;
}

model::NamedTensors DataParallel::compression_state() {
  return bound_->mean.compression() == nullptr ? model::NamedTensors{} : bound_->mean.compression()->state();
}

void DataParallel::require_same_state() {
  constexpr const char* kAdvice =
      "Where an optimizer of your own rounds differently on the ranks' hosts, call synchronise() from time to time and "
      "set check_state_every to 0; else go on from the last checkpoint";
  constexpr const char* kBufferAdvice = "synchronise() gives all ranks those of rank 0, the next step their mean";
  const std::string when = concat("This is after step ", steps_, ". ");
  sync::require_same_state(bound_->replica, group_, when + kAdvice, limits(), when + kBufferAdvice);
}

}  // namespace tandem::sync
