#include "tandem/learner/learner.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/learner/loss_fault.h"
#include "tandem/sync/not_finite.h"

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

// Calls the user's function with the rows, in a span of its own.
template <typename Function, typename Rows>
auto in_span(const char* name, const Function& function, const Rows& rows) {
  const Span span(name);
  return function(rows);
}

}  // namespace

// Each shard in turn: `take` gives its rows, and `pass` makes its gradients and says what its loss was. `pass` calls
// what it is given when the loss is there, before anything else may draw random numbers.
//   1. Resumes the strategy.
//   2. Makes each shard's gradients.
//   3. Steps the strategy, which exchanges the gradients.
// The reported loss is the mean of the shards' losses by their weights.
template <typename Take, typename Pass>
LearnerReport Learner::run_shards(std::int64_t minibatch, double lr_factor, const Limits& limits, const Take& take,
                                  const Pass& pass) {
  strategy_.resume(limits);
  LearnerReport report;
  double weighted = 0, weight = 0;
  for (int shard = replica_.placement().mine.begin; shard < replica_.placement().mine.end; ++shard) {
    const auto rows = take(shard);
    const model::ShardRandomScope random(replica_.generator(shard));
    strategy_.open(shard);
    const WrittenLoss loss = pass(
        rows, [&] { require_own_random(random, shard); }, report);
    close_shard(shard, minibatch, loss);
    report.rows += rows.valid_rows;
    weighted += loss.loss * loss.weight;
    weight += loss.weight;
  }
  report.replica_loss = weight > 0 ? weighted / weight : 0;
  rows_trained_ += report.rows;
  report.step = step_strategy(minibatch, lr_factor, limits);
  staleness_.add(report.step);
  return report;
}

LearnerReport Learner::step(std::int64_t minibatch, const LossFunction& loss, double lr_factor, const Limits& limits) {
  return run_shards(
      minibatch, lr_factor, limits, [&](int shard) { return batch_.minibatch(shard, minibatch); },
      [&](const ShardBatch& batch, const auto& require_own_random, LearnerReport& report) {
        ShardLoss result = in_span("loss", loss, batch);
        require_own_random();
        WrittenLoss written{.loss = 0, .weight = result.weight, .parts = result.parts};
        if (result.weight > 0) {
          require_scalar(result.loss, batch.shard);
          const Span span("backward");
          // The weight enters as the gradient of the loss, which scales all gradients without another pass over them.
          torch::autograd::backward({result.loss},
                                    {at::full({}, result.weight, result.loss.options()).expand_as(result.loss)});
          written.loss = result.loss.item<double>();
        }
        // Outputs would otherwise keep the graph of the shard alive until the report is gone.
        for (auto& [name, tensor] : result.outputs) tensor = tensor.detach();
        report.shard_outputs.push_back(std::move(result.outputs));
        return written;
      });
}

LearnerReport Learner::step(std::int64_t minibatch, const GradientFunction& gradients, double lr_factor,
                            const Limits& limits) {
  return run_shards(
      minibatch, lr_factor, limits, [&](int shard) { return batch_.rows_of_minibatch(shard, minibatch); },
      [&](const ShardRows& rows, const auto& require_own_random, LearnerReport&) {
        WrittenLoss written = in_span("loss and gradients", gradients, rows);
        require_own_random();
        if (written.weight > 0)
          replica_.parameters().mark_written();
        else
          // A shard without weight has no rows that count, so whatever the function returned as its loss has no
          // meaning.
          written.loss = 0;
        return written;
      });
}

// A draw from torch's default generator would give other numbers on another number of replicas, because all shards
// share that generator.
void Learner::require_own_random(const model::ShardRandomScope& random, int shard) const {
  if (options_.rng != model::RngOrder::kShards || replica_.placement().shards == 1) return;
  if (!random.default_generator_moved()) return;
  throw RunError(concat("shard ", shard, " drew random numbers from torch's default generator, which all ",
                        replica_.placement().shards,
                        " shards share, so the numbers would depend on the topology; use tandem::nn::Dropout or pass",
                        " tandem::model::current_generator() to random operations, or allow it with rng: unordered"));
}

sync::StepReport Learner::step_strategy(std::int64_t minibatch, double lr_factor, const Limits& limits) {
  try {
    return strategy_.step(lr_factor, limits);
  } catch (const sync::GradientNotFinite& error) {
    for (int shard = replica_.placement().mine.begin; shard < replica_.placement().mine.end; ++shard) {
      const ShardRows rows = batch_.rows_of_minibatch(shard, minibatch);
      const std::string absurd = absurd_rows({.rows = rows, .names = names_});
      if (!absurd.empty()) throw RunError(concat(error.what(), " ", who(shard, replica_.placement()), ": ", absurd));
    }
    throw;
  }
}

// Ends the shard's pass; errors name the replica, the device and the shard.
void Learner::close_shard(int shard, std::int64_t minibatch, const WrittenLoss& loss) {
  // The gradient of such a loss would spoil the sums of all shards.
  if (!std::isfinite(loss.loss)) {
    const ShardRows rows = batch_.rows_of_minibatch(shard, minibatch);
    throw RunError(concat(who(shard, replica_.placement()), ": the loss of minibatch ", minibatch, " is ", loss.loss,
                          ". ",
                          why_not_finite({.parts = loss.parts, .rows = rows, .names = names_}, replica_.module())));
  }
  try {
    const Span span("add gradients");
    strategy_.close(loss.weight, loss.loss);
  } catch (const DataError& error) {
    throw DataError(concat(who(shard, replica_.placement()), ": ", error.what()));
  }
}

}  // namespace tandem::learner
