#include "tandem/rl/algo/ppo/ppo.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/rl/algo/loss_parts.h"
#include "tandem/rl/algo/name_columns.h"

namespace tandem::rl {
namespace {

struct PowerSums {
  double count = 0, sum = 0, squares = 0;

  void add(double number) {
    sum += number;
    squares += number * number;
  }
  [[nodiscard]] double variance() const { return squares / count - (sum / count) * (sum / count); }
};

// Float numbers are added up in float64 in the order of the elements.
PowerSums power_sums(const at::Tensor& numbers) {
  const at::Tensor flat = numbers.to(at::kCPU).contiguous();
  PowerSums sums{.count = static_cast<double>(flat.numel())};
  for (const float number : std::span(flat.const_data_ptr<float>(), static_cast<std::size_t>(flat.numel())))
    sums.add(number);
  return sums;
}

// Some rows of a column that lies on the CPU.
PowerSums power_sums(const learner::ShardRows& rows, const at::Tensor& column) {
  TANDEM_CHECK(column.is_cpu() && column.is_contiguous(), "a column on ", column.device().str(), " of strides ",
               column.strides());
  const float* number = column.const_data_ptr<float>();
  PowerSums sums{.count = static_cast<double>(rows.rows)};
  for (std::int64_t i = 0; i < rows.rows; ++i) sums.add(number[rows.row(i)]);
  return sums;
}

// Mean and 1 / (deviation + 1e-8), with the unbiased variance, as CleanRL and stable-baselines3 have it.
void set_advantage_moments(const PowerSums& sums, PpoMinibatch& minibatch) {
  const double mean = sums.sum / sums.count;
  const double variance = std::max(0.0, sums.squares - sums.count * mean * mean) / std::max(1.0, sums.count - 1);
  minibatch.advantage_mean = mean;
  minibatch.advantage_scale = 1 / (std::sqrt(variance) + 1e-8);
}

}  // namespace

Ppo::Ppo(learner::Member member, ActorCritic& policy, const PpoOptions& options, InstructionSet set)
    : member_(std::move(member)),
      policy_(policy),
      options_(options),
      now_(options),
      gradients_(choose_gradients(
          {.policy = policy,
           .wanted = options.kernel,
           .option = "ppo.kernel",
           .compute = options.compute,
           .no_replay = options.fragments == Fragments::kUneven ? "minibatches differ in their rows" : "",
           .has_one_pass = true,
           .set = set})) {
  member_.learner.name_batch({.row =
                                  [this](int shard, std::int64_t row) {
                                    if (fragment_envs_ == 0) return std::string();
                                    return concat("environment ", shard * fragment_envs_ + row % fragment_envs_,
                                                  ", step ", row / fragment_envs_, " of the rollout, from 0");
                                  },
                              .column = [&policy](const std::string& name,
                                                  std::size_t nth) { return name_column(policy.spec(), name, nth); }});
  if (gradients_.way == GradientWay::kFused) {
    fused_ = std::make_unique<FusedPpo<float>>(policy, set, options.compute);
  } else if (gradients_.way == GradientWay::kReplayed) {
    replayed_ = std::make_unique<learner::ReplayedLoss>(
        member_.replica, [this](const learner::ShardBatch& rows, const at::Tensor& constants) {
          return ppo_loss_on_device(policy_, rows, options_, constants);
        });
  }
}

// The plan of an update: statistics of the fragments, load them as one batch, `epochs` passes of minibatches, and the
// means of what was learned. Each sum over shards is a meeting of all replicas; they come to the same sums in the same
// order because options, counts and sums are the same for all.
LearnReport Ppo::update(std::span<Fragment* const> fragments, double progress, Clock::duration patience) {
  LearnReport report;
  const Clock::time_point start = Clock::now();
  at(Phase::kLearn);
  sum_seconds_ = 0;
  const double lr_factor = options_.learning_rate_schedule.factor(options_.learning_rate, progress);
  report.learning_rate = options_.learning_rate_schedule.at(options_.learning_rate, progress);
  report.clip_range = options_.clip_range_schedule.at(options_.clip_range, progress);
  now_.entropy_coef = options_.entropy_coef_schedule.at(options_.entropy_coef, progress);
  report.entropy_coef = now_.entropy_coef;
  report.kl_coef = now_.kl_coef;
  report.explained_variance = explained_variance(fragments);
  load(fragments);
  report.load_seconds = seconds_since(start);

  const std::int64_t planned = member_.learner.batch().plan().minibatches;
  minibatches_.assign(static_cast<std::size_t>(planned), PpoMinibatch{.clip_range = report.clip_range});
  sums_.assign(fragments.size(), PpoSums{});
  if (options_.advantage_normalization == AdvantageNormalization::kBatch) normalize_over_batch(fragments);
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    if (!run_pass(patience, lr_factor, report)) break;
  }
  finish(report);
  report.learn_seconds = seconds_since(start) - report.load_seconds - report.sync_seconds;
  report.wait_seconds = report.sync_seconds + sum_seconds_;
  at(Phase::kWait);
  return report;
}

// All sums of statistics go through here: write(i, numbers) appends those of the replica's shard i. In the first sum of
// an update, replicas that have sampled wait for the slowest rollout, which is why its time is counted as waiting.
template <typename Write>
std::span<const double> Ppo::sum(std::size_t shards, const Write& write) {
  numbers_.resize(shards);
  for (std::size_t i = 0; i < shards; ++i) {
    numbers_[i].clear();
    write(i, numbers_[i]);
  }
  const Clock::time_point start = Clock::now();
  at(Phase::kWait);
  const std::vector<double>& all = member_.shard_sum.sum(numbers_);
  at(Phase::kLearn);
  sum_seconds_ += seconds_since(start);
  return all;
}

// Without sequences the columns are views of the fragments, which stay as they are until the next rollout.
void Ppo::load(std::span<Fragment* const> fragments) {
  const std::int64_t envs = options_.num_envs / member_.replica.placement().shards;
  const bool is_grid = !options_.sequences && fragments[0]->joined.empty() && fragments[0]->rows == envs;
  fragment_envs_ = is_grid ? envs : 0;
  batches_.resize(fragments.size());
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    if (options_.sequences) {
      batches_[i] = ppo_sequences(*fragments[i], *options_.sequences);
    } else {
      take_columns(*fragments[i], batches_[i]);
    }
  }
  if (options_.fragments == Fragments::kEven) {
    member_.learner.batch().load_shards(batches_, options_.minibatch_rows(), learner::Tail::kDrop);
  } else {
    member_.learner.batch().load_uneven(batches_, options_.pass_minibatches());
  }
  if (options_.sequences) batches_.clear();  // copies, where the others are views
}

void Ppo::normalize_over_batch(std::span<Fragment* const> fragments) {
  const Span span("advantage moments");
  std::span<const double> all = sum(fragments.size(), [&](std::size_t i, std::vector<double>& numbers) {
    learner::append_struct(power_sums(fragments[i]->made(fragments[i]->advantage)), numbers);
  });
  const auto sums = learner::take_struct<PowerSums>(all);
  for (PpoMinibatch& minibatch : minibatches_) set_advantage_moments(sums, minibatch);
}

// Sums the advantages of one minibatch, of the replica's shard `local`.
void Ppo::append_advantages(std::size_t local, std::int64_t minibatch, std::vector<double>& numbers) {
  const int shard = member_.replica.placement().mine.begin + static_cast<int>(local);
  const learner::LoadedBatch& batch = member_.learner.batch();
  if (options_.sequences) {
    const at::Tensor advantage = batch.column_of_minibatch("advantage", shard, minibatch);
    const at::Tensor learned = batch.column_of_minibatch(kLearnedColumn, shard, minibatch);
    return learner::append_struct(power_sums(advantage.masked_select(learned != 0)), numbers);
  }
  // Read from the fragment, which is on the CPU, so that nobody waits for a device.
  const at::Tensor& advantage = learner::column(batches_[local].columns, "advantage");
  learner::append_struct(power_sums(batch.rows_of_minibatch(shard, minibatch), advantage), numbers);
}

// The moments of all minibatches of the pass in one sum, since their rows are known once its order is.
void Ppo::normalize_over_minibatches() {
  const Span span("advantage moments");
  const auto shards = static_cast<std::size_t>(member_.replica.placement().mine.size());
  std::span<const double> all = sum(shards, [&](std::size_t local, std::vector<double>& numbers) {
    for (std::int64_t b = 0; b < std::ssize(minibatches_); ++b) append_advantages(local, b, numbers);
  });
  for (PpoMinibatch& minibatch : minibatches_) set_advantage_moments(learner::take_struct<PowerSums>(all), minibatch);
}

learner::LearnerReport Ppo::step(std::int64_t minibatch, double lr_factor, Clock::duration patience) {
  minibatch_sums_.clear();
  const PpoMinibatch& shared = minibatches_[static_cast<std::size_t>(minibatch)];
  const Limits limits{.deadline = Deadline::after(patience), .stop = member_.lost};
  if (fused_ || replayed_) {
    const auto gradients = [&](const learner::ShardRows& rows) {
      PpoSums& sums = minibatch_sums_.emplace_back();
      return fused_ ? fused_->run(rows, now_, shared, sums) : replay(rows, shared, sums);
    };
    return member_.learner.step(minibatch, learner::GradientFunction(std::cref(gradients)), lr_factor, limits);
  }
  const auto loss = [&](const learner::ShardBatch& rows) {
    PpoSums& sums = minibatch_sums_.emplace_back();
    if (rows.rows == 0) return learner::ShardLoss{};  // of uneven fragments
    const auto loss_of = gradients_.way == GradientWay::kOnePass ? ppo_loss_in_one_pass : ppo_loss;
    return loss_of(policy_, rows, now_, shared, sums);
  };
  return member_.learner.step(minibatch, learner::LossFunction(std::cref(loss)), lr_factor, limits);
}

learner::WrittenLoss Ppo::replay(const learner::ShardRows& rows, const PpoMinibatch& shared, PpoSums& sums) {
  learner::WrittenLoss loss = replayed_->run(member_.learner.batch(), rows, ppo_constants(now_, shared));
  if (loss.weight > 0) sums = ppo_sums_of(loss.weight, replayed_->numbers(rows.shard));
  if (loss.weight > 0) loss.parts = loss_parts(sums, loss.weight);
  return loss;
}

// Returns whether the update goes on.
// The order of rows is shuffled anew for each pass.
bool Ppo::run_pass(Clock::duration patience, double lr_factor, LearnReport& report) {
  member_.learner.begin_pass(learner::Order::kShuffled);
  if (options_.advantage_normalization == AdvantageNormalization::kMinibatch) normalize_over_minibatches();
  for (std::size_t b = 0; b < minibatches_.size(); ++b) {
    const learner::LearnerReport step = this->step(static_cast<std::int64_t>(b), lr_factor, patience);
    for (std::size_t shard = 0; shard < minibatch_sums_.size(); ++shard) sums_[shard].add(minibatch_sums_[shard]);
    report.grad_norm += step.step.grad_norm;
    report.sync_seconds += step.step.wait_seconds;
    ++report.minibatches;
    if (!options_.target_kl) continue;
    const PpoSums last = sum_over_run(minibatch_sums_);  // of this minibatch alone
    if (last.approx_kl / last.rows > 1.5 * *options_.target_kl) return false;
  }
  return true;
}

// All replicas see the same sums, so what follows from them is the same for all.
PpoSums Ppo::sum_over_run(std::span<const PpoSums> shards) {
  std::span<const double> all = sum(
      shards.size(), [&](std::size_t i, std::vector<double>& numbers) { learner::append_struct(shards[i], numbers); });
  return learner::take_struct<PpoSums>(all);
}

// A shard gives the sums of the targets, then those of target - value, which is the advantage.
double Ppo::explained_variance(std::span<Fragment* const> fragments) {
  const Span span("statistics");
  std::span<const double> all = sum(fragments.size(), [&](std::size_t i, std::vector<double>& numbers) {
    learner::append_struct(power_sums(fragments[i]->made(fragments[i]->value_target)), numbers);
    learner::append_struct(power_sums(fragments[i]->made(fragments[i]->advantage)), numbers);
  });
  const double of_targets = learner::take_struct<PowerSums>(all).variance();
  const double of_errors = learner::take_struct<PowerSums>(all).variance();
  return of_targets > 0 ? 1 - of_errors / of_targets : std::numeric_limits<double>::quiet_NaN();
}

// Means over all rows of all shards and passes; the weight of the divergence is adapted to their KL.
void Ppo::finish(LearnReport& report) {
  PpoSums all = sum_over_run(sums_);
  all /= all.rows;
  static_cast<Losses&>(report) = all;
  report.grad_norm /= static_cast<double>(report.minibatches);
  if (options_.kl_coef_target)
    now_.kl_coef = adapted_kl_coef(now_.kl_coef, *options_.kl_coef_target, report.approx_kl, options_.kl_coef);
}

}  // namespace tandem::rl
