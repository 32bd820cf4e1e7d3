#include "tandem/learner/learner.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"

namespace tandem::learner {
namespace {

void require_scalar(const at::Tensor& loss, int shard) {
  if (loss.defined() && loss.numel() == 1 && loss.requires_grad()) return;
  throw RunError(concat("the loss of shard ", shard, " is ",
                        !loss.defined()     ? "undefined"
                        : loss.numel() != 1 ? "no scalar"
                                            : "without a gradient",
                        loss.defined() ? concat(" (shape ", loss.sizes(), ")") : "",
                        "; return the mean over the shard's rows"));
}

std::string who(int shard, const sync::Placement& placement) {
  return concat("replica ", placement.replica, " on ", placement.device.str(), ", shard ", shard);
}

void require_finite(double loss, int shard, const sync::Placement& placement, std::int64_t minibatch) {
  if (std::isfinite(loss)) return;
  throw RunError(concat(who(shard, placement), ": the loss of minibatch ", minibatch, " is ", loss,
                        "; the learning rate may be too high, or the loss divides by zero"));
}

WrittenLoss gradients_of(const ShardRows& rows, const GradientFunction& gradients) {
  const Span span("loss and gradients");
  return gradients(rows);
}

ShardLoss loss_of(const ShardBatch& batch, const LossFunction& loss) {
  const Span span("loss");
  return loss(batch);
}

}  // namespace

LearnerReport Learner::step(std::int64_t minibatch, const LossFunction& loss, double lr_factor, const Limits& limits) {
  return run_shards(minibatch, lr_factor, limits,
                    [&](int shard, LearnerReport& report) { return run_shard(shard, minibatch, loss, report); });
}

LearnerReport Learner::step(std::int64_t minibatch, const GradientFunction& gradients, double lr_factor,
                            const Limits& limits) {
  return run_shards(minibatch, lr_factor, limits,
                    [&](int shard, LearnerReport& report) { return run_shard(shard, minibatch, gradients, report); });
}

template <typename RunShard>
LearnerReport Learner::run_shards(std::int64_t minibatch, double lr_factor, const Limits& limits,
                                  const RunShard& run_shard) {
  strategy_.resume(limits);
  LearnerReport report;
  double weighted = 0, weight = 0;
  for (int shard = replica_.placement().mine.begin; shard < replica_.placement().mine.end; ++shard) {
    const double shard_weight = run_shard(shard, report);
    weighted += report.replica_loss * shard_weight;
    weight += shard_weight;
  }
  report.replica_loss = weight > 0 ? weighted / weight : 0;
  rows_trained_ += report.rows;
  report.step = strategy_.step(lr_factor, limits);
  staleness_.add(report.step);
  return report;
}

double Learner::run_shard(int shard, std::int64_t minibatch, const LossFunction& loss, LearnerReport& report) {
  const ShardBatch batch = batch_.minibatch(shard, minibatch);
  const model::ShardRandomScope random(replica_.generator(shard));
  strategy_.open(shard);
  ShardLoss result = loss_of(batch, loss);
  require_own_random(random, shard);
  if (result.weight > 0) {
    require_scalar(result.loss, shard);
    const Span span("backward");
    torch::autograd::backward({result.loss},
                              {at::full({}, result.weight, result.loss.options()).expand_as(result.loss)});
  }
  close_shard(shard, minibatch, {.loss = result.weight > 0 ? result.loss.item<double>() : 0, .weight = result.weight},
              report);
  report.rows += batch.valid_rows;
  for (auto& [name, tensor] : result.outputs) tensor = tensor.detach();
  report.shard_outputs.push_back(std::move(result.outputs));
  return result.weight;
}

double Learner::run_shard(int shard, std::int64_t minibatch, const GradientFunction& gradients, LearnerReport& report) {
  const ShardRows rows = batch_.rows_of_minibatch(shard, minibatch);
  const model::ShardRandomScope random(replica_.generator(shard));
  strategy_.open(shard);
  WrittenLoss result = gradients_of(rows, gradients);
  require_own_random(random, shard);
  if (result.weight > 0) {
    replica_.parameters().mark_written();
  } else {
    result.loss = 0;
  }
  close_shard(shard, minibatch, result, report);
  report.rows += rows.valid_rows;
  return result.weight;
}

void Learner::require_own_random(const model::ShardRandomScope& random, int shard) const {
  if (options_.rng != model::RngOrder::kShards || replica_.placement().shards == 1) return;
  if (!random.default_generator_moved()) return;
  throw RunError(concat("shard ", shard, " drew random numbers from torch's default generator, which all ",
                        replica_.placement().shards,
                        " shards share, so the numbers would depend on the topology; use tandem::nn::Dropout or pass",
                        " tandem::model::current_generator() to random operations, or allow it with rng: unordered"));
}

void Learner::close_shard(int shard, std::int64_t minibatch, const WrittenLoss& loss, LearnerReport& report) {
  report.replica_loss = loss.loss;
  require_finite(report.replica_loss, shard, replica_.placement(), minibatch);
  try {
    const Span span("add gradients");
    strategy_.close(loss.weight, report.replica_loss);
  } catch (const DataError& error) {
    throw DataError(concat(who(shard, replica_.placement()), ": ", error.what()));
  }
}

}  // namespace tandem::learner
