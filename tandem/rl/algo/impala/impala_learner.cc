#include "tandem/rl/algo/impala/impala_learner.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/loss_parts.h"
#include "tandem/rl/algo/name_columns.h"
#include "tandem/rl/algo/run_parts.h"

// How a step comes about: step() hands the batch to all replicas' threads. Each loads its shards as one pass in their
// order and makes one learner step (step_of()), which asks for the loss of each shard, with gradients or for autograd,
// and waits for the other replicas' gradients. Each shard's numbers are written to its own place in `numbers_`.
namespace tandem::rl {
namespace {

std::size_t index_of(int number) { return static_cast<std::size_t>(number); }

void require_reproducible(const sync::StrategyOptions& strategy, int replicas) {
  const bool is_local = std::holds_alternative<sync::LocalStepsOptions>(strategy);
  if (replicas == 1 || (sync::is_reproducible(strategy, replicas) && !is_local)) return;
  throw ConfigError(concat("the learner has ", replicas,
                           " replicas, which all make each step; use replicated, divided or parameter_server, or one "
                           "replica"));
}

// Rows of columns and of states are the steps of a fragment, of all environments each, or else decisions, which
// messages number.
void name_batches(learner::Learner& learner, const Spec& spec, BatchesOf batches) {
  learner::BatchNames names{
      .row = {}, .column = [&spec](const std::string& name, std::size_t nth) { return name_column(spec, name, nth); }};
  if (batches == BatchesOf::kTrajectories) {
    names.row = [&learner](int shard, std::int64_t row) {
      const std::int64_t envs = learner.batch().rows_of_minibatch(shard, 0).states.front().second.size(2);
      return concat("environment ", row % envs, " of its batch, step ", row / envs, " of the rollout, from 0");
    };
  }
  learner.name_batch(std::move(names));
}

}  // namespace

// The order matters: modules come first, then the team, and only then weights, targets and gradients, which refer to
// the modules' tensors as the team leaves them.
ImpalaLearner::ImpalaLearner(const ImpalaSetup& setup, const LearnedPolicy& learned, Clock::duration patience)
    : setup_(setup), patience_(patience) {
  const std::vector<sync::Placement> placements = setup_.ranks.place(setup_.devices, setup_.shards);
  replicas_ = placements.front().replicas;
  shards_ = {placements.front().mine.begin, placements.back().mine.end};
  numbers_.resize(index_of(shards_.size()));
  require_reproducible(setup_.strategy, replicas_);
  for (const sync::Placement& placement : placements) {
    shard_devices_.insert(shard_devices_.end(), index_of(placement.mine.size()), placement.device);
    Seat& seat = seats_.emplace_back();
    seat.policy = learned.build();
    seat.policy->to(placement.device);
  }
  require_sequences_for(remembers(policy()), setup_.impala.sequence_length.has_value());
  learner::TeamOptions options = team_options_of(setup_, setup_.impala, learned.seed, patience);
  options.threads = learned.threads;
  team_ = std::make_unique<learner::ReplicaTeam>(
      placements, options,
      [this](const sync::Placement& placement) { return seats_[index_of(placement.local)].policy; }, setup_.ranks);
  gradients_ = choose(learned);
  for (const sync::Placement& placement : placements) {
    Seat& seat = seats_[index_of(placement.local)];
    seat.weights = weights_of(*seat.policy);
    if (setup_.appo) build_target(seat, learned.build());
    build_gradients(seat, team_->member(placement.local).replica);
    name_batches(team_->member(placement.local).learner, seat.policy->spec(), learned.batches);
  }
}

// A target is in evaluation mode and begins with the policy's weights.
void ImpalaLearner::build_target(Seat& seat, const std::shared_ptr<ActorCritic>& like) const {
  seat.target = like;
  seat.target->to(seat.weights.front().device());
  seat.target->eval();
  seat.target_weights = weights_of(*seat.target);
  copy_weights(seat.weights, seat.target_weights);
  seat.appo.emplace(AppoTarget{*seat.target, *setup_.appo});
}

GradientChoice ImpalaLearner::choose(const LearnedPolicy& learned) const {
  const bool continuous = std::holds_alternative<Box>(policy().spec().action);
  const bool has_kl = continuous && setup_.appo && setup_.appo->kl_coef > 0;
  return choose_gradients(
      {.policy = policy(),
       .wanted = setup_.impala.kernel,
       .option = "impala.kernel",
       .compute = setup_.impala.compute,
       .no_kernels = has_kl ? "there are none for appo.kl_coef above 0 with continuous actions" : "",
       .no_replay = learned.batches == BatchesOf::kDecisions ? "batches differ in their rows" : "",
       .set = setup_.actor.instruction_set});
}

void ImpalaLearner::build_gradients(Seat& seat, sync::Replica& replica) const {
  const InstructionSet set = setup_.actor.instruction_set;
  if (gradients_.way == GradientWay::kFused) {
    seat.fused = std::make_unique<FusedVtrace<float>>(*seat.policy, seat.target.get(), set, setup_.impala.compute);
  } else if (gradients_.way == GradientWay::kReplayed) {
    seat.replayed = std::make_unique<learner::ReplayedLoss>(
        replica, [this, &seat](const learner::ShardBatch& rows, const at::Tensor& /*constants*/) {
          return impala_loss_on_device(*seat.policy, seat.appo, rows, setup_.impala);
        });
  }
}

// Every replica loads its shards, makes one pass of one minibatch, and leaves its numbers in numbers_. No two replicas
// write to the same shard's numbers, so no lock is needed.
ImpalaLearner::Step ImpalaLearner::step(std::span<const learner::Batch> batch, double lr_factor) {
  TANDEM_CHECK(std::ssize(batch) == shards_.size(), batch.size(), " batches for ", shards_.size(), " shards");
  Step step;
  team_->run([&](learner::Member& member) {
    const sync::Placement& placement = member.replica.placement();
    member.learner.batch().load_uneven(
        batch.subspan(index_of(placement.mine.begin - shards_.begin), index_of(placement.mine.size())), 1);
    member.learner.begin_pass(learner::Order::kSequential);
    Seat& seat = seats_[index_of(placement.local)];
    const learner::LearnerReport made = step_of(seat, member.learner, lr_factor);
    seat.wait_seconds = made.step.wait_seconds;
    if (placement.local == 0) step.grad_norm = made.step.grad_norm;
  });
  step.shards = numbers_;
  step.wait_seconds = std::ranges::min_element(seats_, {}, &Seat::wait_seconds)->wait_seconds;
  return step;
}

// Gradients are either written by a GradientFunction (fused or replayed) or follow from a loss by autograd. A shard
// without rows takes part with no weight.
learner::LearnerReport ImpalaLearner::step_of(Seat& seat, learner::Learner& learner, double lr_factor) {
  fault_point("impala.learn");
  const Limits limits{.deadline = Deadline::after(patience_), .stop = {}};
  if (gradients_.way != GradientWay::kAutograd) {
    const auto gradients = [&](const learner::ShardRows& rows) {
      ImpalaNumbers& numbers = numbers_of(rows.shard) = {};
      if (rows.rows == 0) return learner::WrittenLoss{};
      if (seat.replayed) {
        learner::WrittenLoss loss = seat.replayed->run(learner.batch(), rows, {});
        numbers = rl::numbers_of(rows.rows, seat.replayed->numbers(rows.shard));
        loss.parts = loss_parts(numbers, 1);
        return loss;
      }
      return seat.fused->run(rows, setup_.impala, setup_.appo, numbers);
    };
    return learner.step(0, learner::GradientFunction(std::cref(gradients)), lr_factor, limits);
  }
  const auto loss = [&](const learner::ShardBatch& rows) {
    ImpalaNumbers& numbers = numbers_of(rows.shard) = {};
    if (rows.rows == 0) return learner::ShardLoss{};
    return impala_loss(*seat.policy, seat.appo, rows, setup_.impala, numbers);
  };
  return learner.step(0, learner::LossFunction(std::cref(loss)), lr_factor, limits);
}

void ImpalaLearner::renew_targets() {
  for (const Seat& seat : seats_) {
    if (seat.target) copy_weights(seat.weights, seat.target_weights);
  }
}

model::NamedTensors ImpalaLearner::target() const {
  const Seat& first = seats_.front();
  return first.target ? model::named_state_of(*first.target) : model::NamedTensors{};
}

void ImpalaLearner::load_target(const model::NamedTensors& target) {
  for (const Seat& seat : seats_) model::copy_named(target, model::named_state_of(*seat.target));
}

}  // namespace tandem::rl
