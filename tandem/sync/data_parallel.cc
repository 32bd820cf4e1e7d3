#include "tandem/sync/data_parallel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

// Plan: a rank is a replica with one shard. open() binds the gradients before the first pass of a step; backward() and
// accumulate() add rows x gradient; close() ends the passes; then the mean over all ranks is formed, and either put
// into every .grad (average) or applied (step). pass_ guards that order, and a failed pass ends the object's use.
Placement placement_of(const torch::nn::Module& module, const comm::Group& group) {
  const std::vector<at::Tensor> parameters = module.parameters();
  if (parameters.empty()) throw ConfigError("the module has no parameters, so there is nothing to train");
  return {.replica = group.rank(),
          .replicas = group.size(),
          .shards = group.size(),
          .mine = {group.rank(), group.rank() + 1},
          .device = parameters.front().device()};
}

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

void require_pass(const at::Tensor& loss, double rows) {
  TANDEM_CHECK(rows > 0, "a loss over ", rows, " rows; a rank without rows calls finish()");
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad())
    throw RunError("a pass takes the mean loss over the rows: a scalar with a gradient");
}

}  // namespace

DataParallel::DataParallel(const std::shared_ptr<torch::nn::Module>& module, comm::Group& group,
                           DataParallelOptions options)
    : options_(std::move(options)),
      group_(group),
      replica_(placement_of(*module, group), module, 0, options_.optimizer, flat_of(options_.flat)),
      slots_(tensors_of_slots(replica_)),
      mean_(replica_, group, options_.mean, options_.compression) {
  if (replica_.has_optimizer() && mean_.means_come_in_buckets()) early_.emplace(replica_, group);
  if (options_.check_state_every < 0)
    throw ConfigError(concat("check_state_every is ", options_.check_state_every, "; give steps, or 0 for no check"));
  require_same_model(replica_, group_, limits());
  broadcast_state(replica_, group_, 0, limits());
}

void DataParallel::synchronise() {
  require_no_failed_pass();
  TANDEM_CHECK(pass_ == Pass::kNone, "synchronise() after a backward pass without its step");
  broadcast_state(replica_, group_, 0, limits());
}

void DataParallel::open() {
  require_no_failed_pass();
  TANDEM_CHECK(pass_ != Pass::kLast,
               "a pass after backward(), before average() or step(): use accumulate() for all but the last");
  if (optimizers_ == Optimizers::kDiffer) {
    throw RunError(
        "the ranks finished after different numbers of steps, so their optimizers differ now and the parameters would "
        "too; hand the optimizer to DataParallel and use step(), or give all ranks as many batches");
  }
  if (pass_ == Pass::kNone) mean_.open(replica_.placement().mine.begin);
  pass_ = Pass::kFailed;  // until the pass has ended
}

void DataParallel::accumulate(const at::Tensor& loss, double rows) {
  require_pass(loss, rows);
  open();
  run_backward(loss, rows);
  pass_ = Pass::kAccumulating;
}

void DataParallel::backward(const at::Tensor& loss, double rows) {
  require_pass(loss, rows);
  open();
  if (early_) early_->offer(rows_ + rows);
  mean_.begin_last_pass();
  run_backward(loss, rows);
  pass_ = Pass::kLast;
}

// The gradient of rows x mean loss, so that gradients of ranks and passes add up to a sum over rows.
void DataParallel::run_backward(const at::Tensor& loss, double rows) {
  torch::autograd::backward({loss}, {at::full({}, rows, loss.options()).expand_as(loss)});
  rows_ += rows;
  loss_ += rows * loss.item<double>();
}

void DataParallel::require_no_failed_pass() const {
  if (pass_ != Pass::kFailed) return;
  throw RunError(
      "a backward pass of this step has failed, so its gradients are incomplete while the other ranks wait for them; "
      "end this rank, or leave out a batch before its backward pass");
}

// Ends the passes of this step. The mean weighs this rank by the rows of all its passes together.
void DataParallel::close() {
  require_no_failed_pass();
  TANDEM_CHECK(pass_ != Pass::kNone, "a step without a backward pass; a rank without rows calls finish()");
  mean_.close(rows_, loss_ / rows_);
  if (early_ && pass_ != Pass::kLast) early_->offer(rows_);  // passes of accumulate() alone
  pass_ = Pass::kNone;
  rows_ = loss_ = 0;
}

WhileSumsCome DataParallel::meanwhile(const Limits& limits) {
  if (!early_) return {};
  return {.on_started = [this, limits] { early_->wait_for_totals(limits); }, .on_summed = {}};
}

StepReport DataParallel::average() {
  close();
  const Limits its = limits();
  const MeanGradient mean = mean_.form(1, steps_, its, meanwhile(its));
  put_mean_in_place(mean.scale);
  count_step(mean);
  return mean.report_of(steps_);
}

StepReport DataParallel::step(double lr_factor) {
  close();
  // With early updates (early_update.h) forming the mean and updating are one; else one comes after the other.
  const MeanGradient mean =
      early_ ? early_->step(mean_, lr_factor, steps_, limits()) : mean_.form(lr_factor, steps_, limits());
  if (!early_) replica_.optimizer().step(mean_.sums(), mean.scale, mean.lr_factor);
  count_step(mean);
  return mean.report_of(steps_);
}

// The regular comparison of the ranks. Without an optimizer here, ranks that have left hold older parameters, and the
// comparison would fail for no fault.
void DataParallel::count_step(const MeanGradient& mean) {
  ++steps_;
  if (options_.check_state_every == 0 || steps_ % options_.check_state_every != 0) return;
  if (replica_.has_optimizer() || mean.left == 0) require_same_state();
}

// A parameter that no rank's loss reached has no .grad, so that optimizers pass it over.
void DataParallel::put_mean_in_place(double scale) {
  const at::NoGradGuard no_grad;
  const model::FlatParameters& parameters = replica_.parameters();
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    if (!buffer.sparse) mean_.sums().dense[b].mul_(scale);
    const at::Tensor presence = buffer.sparse ? at::Tensor() : mean_.sums().presence[b].to(at::kCPU, at::kFloat);
    for (std::size_t slot = 0; slot < buffer.slots.size(); ++slot) {
      at::Tensor& grad = slots_[b][slot].mutable_grad();
      if (buffer.sparse) {
        const at::Tensor& sum = mean_.sums().sparse[b][slot];
        grad = sum.defined() ? sum.mul(scale) : at::Tensor();
      } else if (presence.const_data_ptr<float>()[slot] == 0) {
        grad.reset();
      } else if (!grad.defined()) {
        grad = mean_.sums().views[b][slot];  // other ranks' losses reached it
      }
    }
  }
}

// Takes part in the others' steps with nothing to offer. Without an optimizer here, the ranks that finished early hold
// old parameters in the end: they get those of the rank that made the most steps.
void DataParallel::finish() {
  require_no_failed_pass();
  TANDEM_CHECK(pass_ == Pass::kNone, "finish() after a backward pass without its step");
  const std::int64_t own_steps = steps_;
  const auto others_mean = [this] {
    if (early_) early_->offer(0, 1);
    const Limits its = limits();
    return mean_.form_without_mine(steps_, its, meanwhile(its));
  };
  while (const std::optional<MeanGradient> mean = others_mean()) {
    if (replica_.has_optimizer()) replica_.optimizer().step(mean_.sums(), mean->scale, mean->lr_factor);
    count_step(*mean);
  }
  if (replica_.has_optimizer()) return;
  std::vector<double> all(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::vector<double>{static_cast<double>(own_steps)}, all, limits());
  const auto most = std::max_element(all.begin(), all.end());
  broadcast_state(replica_, group_, static_cast<int>(most - all.begin()), limits());
  if (*std::ranges::min_element(all) != *most) optimizers_ = Optimizers::kDiffer;
}

model::NamedTensors DataParallel::compression_state() {
  return mean_.compression() == nullptr ? model::NamedTensors{} : mean_.compression()->state();
}

void DataParallel::require_same_state() {
  constexpr const char* kAdvice =
      "Where an optimizer of your own rounds differently on the ranks' hosts, call synchronise() from time to time and "
      "set check_state_every to 0; else go on from the last checkpoint";
  sync::require_same_state(replica_, group_, concat("This is after step ", steps_, ". ", kAdvice), limits());
}

}  // namespace tandem::sync
