#include "tandem/rl/algo/ppo/ppo.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/rl/algo/ppo/ppo_columns.h"
#include "tandem/rl/algo/ppo/ppo_sequences.h"

namespace tandem::rl {
namespace {

// Returns {count, sum, sum of squares} of a float tensor, added up in float64 in the order of its elements.
std::array<double, 3> power_sums(const at::Tensor& numbers) {
  const at::Tensor flat = numbers.to(at::kCPU).contiguous();
  const float* number = flat.const_data_ptr<float>();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    sum += number[i];
    squares += static_cast<double>(number[i]) * number[i];
  }
  return {static_cast<double>(flat.numel()), sum, squares};
}

// Returns {count, sum, sum of squares} of some rows of a column that lies on the CPU.
std::array<double, 3> power_sums(const learner::ShardRows& rows, const at::Tensor& column) {
  TANDEM_CHECK(column.is_cpu() && column.is_contiguous(), "a column on ", column.device().str(), " of strides ",
               column.strides());
  const float* number = column.const_data_ptr<float>();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const double each = number[rows.row(i)];
    sum += each;
    squares += each * each;
  }
  return {static_cast<double>(rows.rows), sum, squares};
}

void append(const std::array<double, 3>& its, std::vector<double>& numbers) {
  numbers.insert(numbers.end(), its.begin(), its.end());
}

// Mean and 1 / (deviation + 1e-8), with the unbiased variance, as CleanRL and stable-baselines3 have it.
void set_advantage_moments(const double* power_sum, PpoMinibatch& minibatch) {
  const double count = power_sum[0], mean = power_sum[1] / count;
  const double variance = std::max(0.0, power_sum[2] - count * mean * mean) / std::max(1.0, count - 1);
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
           .no_replay = options.fragments == Fragments::kUneven ? "minibatches differ in their rows" : "",
           .set = set})) {
  if (gradients_.way == GradientWay::kFused) {
    fused_ = std::make_unique<FusedPpo<float>>(dynamic_cast<MlpPolicy&>(policy), set);
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
  const double lr_factor = scheduled(1.0, options_.learning_rate_schedule, progress);
  report.learning_rate = options_.learning_rate * lr_factor;
  report.clip_range = scheduled(options_.clip_range, options_.clip_range_schedule, progress);
  now_.entropy_coef = scheduled(options_.entropy_coef, options_.entropy_coef_schedule, progress);
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

// All sums of statistics go through here. In the first of an update, replicas that have sampled wait for the slowest
// rollout, which is why its time is counted as waiting.
const std::vector<double>& Ppo::sum(std::span<const std::vector<double>> shards) {
  const Clock::time_point start = Clock::now();
  at(Phase::kWait);
  const std::vector<double>& all = member_.shard_sum.sum(shards);
  at(Phase::kLearn);
  sum_seconds_ += seconds_since(start);
  return all;
}

// Memory for the numbers of each shard, to begin with none.
Ppo::ShardNumbers& Ppo::no_numbers(std::size_t shards) {
  numbers_.resize(shards);
  for (std::vector<double>& numbers : numbers_) numbers.clear();
  return numbers_;
}

// Without sequences the columns are views of the fragments, which stay as they are until the next rollout.
void Ppo::load(std::span<Fragment* const> fragments) {
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
  ShardNumbers& shards = no_numbers(fragments.size());
  for (std::size_t i = 0; i < fragments.size(); ++i)
    append(power_sums(fragments[i]->made(fragments[i]->advantage)), shards[i]);
  const std::vector<double>& all = sum(shards);
  for (PpoMinibatch& minibatch : minibatches_) set_advantage_moments(all.data(), minibatch);
}

Ppo::PowerSums Ppo::advantage_sums(int shard, std::int64_t minibatch) {
  const learner::LoadedBatch& batch = member_.learner.batch();
  if (options_.sequences) {
    const at::Tensor advantage = batch.column_of_minibatch("advantage", shard, minibatch);
    return power_sums(advantage.masked_select(batch.column_of_minibatch(kLearnedColumn, shard, minibatch) != 0));
  }
  // Read from the fragment, which is on the CPU, so that nobody waits for a device.
  const auto local = static_cast<std::size_t>(shard - member_.replica.placement().mine.begin);
  return power_sums(batch.rows_of_minibatch(shard, minibatch), learner::column(batches_[local].columns, "advantage"));
}

// The moments of all minibatches of the pass in one sum, since their rows are known once its order is.
void Ppo::normalize_over_minibatches() {
  const Span span("advantage moments");
  const Range mine = member_.replica.placement().mine;
  ShardNumbers& shards = no_numbers(static_cast<std::size_t>(mine.size()));
  for (int shard = mine.begin; shard < mine.end; ++shard) {
    std::vector<double>& numbers = shards[static_cast<std::size_t>(shard - mine.begin)];
    for (std::size_t b = 0; b < minibatches_.size(); ++b)
      append(advantage_sums(shard, static_cast<std::int64_t>(b)), numbers);
  }
  const std::vector<double>& all = sum(shards);
  for (std::size_t b = 0; b < minibatches_.size(); ++b) set_advantage_moments(all.data() + 3 * b, minibatches_[b]);
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
    return ppo_loss(policy_, rows, now_, shared, sums);
  };
  return member_.learner.step(minibatch, learner::LossFunction(std::cref(loss)), lr_factor, limits);
}

learner::WrittenLoss Ppo::replay(const learner::ShardRows& rows, const PpoMinibatch& shared, PpoSums& sums) {
  const learner::WrittenLoss loss = replayed_->run(member_.learner.batch(), rows, ppo_constants(now_, shared));
  if (loss.weight > 0) sums = ppo_sums_of(loss.weight, replayed_->numbers(rows.shard));
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
    if (options_.target_kl && kl_exceeded()) return false;
  }
  return true;
}

// Looks at the last minibatch alone. All replicas see the same sum, so all of them stop after the same one.
bool Ppo::kl_exceeded() {
  ShardNumbers& shards = no_numbers(minibatch_sums_.size());
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].assign({minibatch_sums_[i].rows, minibatch_sums_[i].approx_kl});
  const std::vector<double>& all = sum(shards);
  return all[1] / all[0] > 1.5 * *options_.target_kl;
}

// A shard gives two triples of power sums: those of the targets, then those of target - value, the advantage.
double Ppo::explained_variance(std::span<Fragment* const> fragments) {
  const Span span("statistics");
  ShardNumbers& shards = no_numbers(fragments.size());
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    append(power_sums(fragments[i]->made(fragments[i]->value_target)), shards[i]);
    append(power_sums(fragments[i]->made(fragments[i]->advantage)), shards[i]);  // target - value
  }
  const std::vector<double>& all = sum(shards);
  const auto variance = [](const double* sums) {
    return sums[2] / sums[0] - (sums[1] / sums[0]) * (sums[1] / sums[0]);
  };
  const double of_targets = variance(all.data());
  return of_targets > 0 ? 1 - variance(all.data() + 3) / of_targets : std::numeric_limits<double>::quiet_NaN();
}

// Means over all rows of all shards and passes; the weight of the divergence is adapted to their KL.
void Ppo::finish(LearnReport& report) {
  ShardNumbers& shards = no_numbers(sums_.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const PpoSums& s = sums_[i];
    shards[i].assign({s.rows, s.policy_loss, s.value_loss, s.entropy, s.approx_kl, s.clipped});
  }
  const std::vector<double>& all = sum(shards);
  report.policy_loss = all[1] / all[0];
  report.value_loss = all[2] / all[0];
  report.entropy = all[3] / all[0];
  report.approx_kl = all[4] / all[0];
  report.clip_fraction = all[5] / all[0];
  report.grad_norm /= static_cast<double>(report.minibatches);
  if (options_.kl_coef_target)
    now_.kl_coef = adapted_kl_coef(now_.kl_coef, *options_.kl_coef_target, report.approx_kl, options_.kl_coef);
}

}  // namespace tandem::rl
