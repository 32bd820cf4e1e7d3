#include "tandem/rl/algo/impala_learner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"
#include "tandem/model/named_copy.h"
#include "tandem/rl/algo/appo_loss.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

constexpr const char* kTarget = "target";  // part of a checkpoint

std::size_t index_of(int number) { return static_cast<std::size_t>(number); }

void require_reproducible(const sync::StrategyOptions& strategy, int replicas) {
  if (replicas == 1 || sync::is_reproducible(strategy, replicas)) return;
  throw ConfigError(concat("the learner has ", replicas,
                           " replicas, which all make each step; use replicated, divided or parameter_server, or one "
                           "replica"));
}

}  // namespace

ImpalaLearner::ImpalaLearner(const ImpalaSetup& setup,
                             const std::function<std::shared_ptr<ActorCritic>()>& build_policy,
                             Clock::duration patience)
    : setup_(setup), patience_(patience) {
  const std::vector<sync::Placement> placements = setup_.ranks.place(setup_.devices, setup_.shards);
  replicas_ = placements.front().replicas;
  shards_ = {placements.front().mine.begin, placements.back().mine.end};
  numbers_.resize(index_of(shards_.size()));
  require_reproducible(setup_.strategy, replicas_);
  for (const sync::Placement& placement : placements) {
    shard_devices_.insert(shard_devices_.end(), index_of(placement.mine.size()), placement.device);
    Seat& seat = seats_.emplace_back();
    seat.policy = build_policy();
    seat.policy->to(placement.device);
  }
  require_sequences_for(policy(), setup_.impala.sequence_length.has_value());
  team_ = std::make_unique<learner::ReplicaTeam>(
      placements, team_options_of(setup_, setup_.impala, setup_.seed, patience),
      [this](const sync::Placement& placement) { return seats_[index_of(placement.local)].policy; }, setup_.ranks);
  for (const sync::Placement& placement : placements) {
    Seat& seat = seats_[index_of(placement.local)];
    seat.weights = weights_of(*seat.policy);
    if (setup_.appo) build_target(seat, build_policy());
    build_kernels(seat);
  }
}

ImpalaLearner::~ImpalaLearner() = default;

void ImpalaLearner::build_target(Seat& seat, const std::shared_ptr<ActorCritic>& like) const {
  seat.target = like;
  seat.target->to(seat.weights.front().device());
  seat.target->eval();
  seat.target_weights = weights_of(*seat.target);
  copy_weights(seat.weights, seat.target_weights);
}

std::string ImpalaLearner::why_no_kernels(const Seat& seat) const {
  if (setup_.impala.kernel == LossKernel::kOff) return "impala.kernel is off";
  if (setup_.appo && setup_.appo->kl_coef > 0) return "there are none for appo.kl_coef above 0";
  return why_not_fused(*seat.policy);
}

void ImpalaLearner::build_kernels(Seat& seat) const {
  if (!why_no_kernels(seat).empty()) return;
  const auto& policy = dynamic_cast<const MlpPolicy&>(*seat.policy);
  const InstructionSet set = setup_.actor.instruction_set;
  if (seat.target) {
    seat.fused_appo = std::make_unique<FusedAppo<float>>(policy, dynamic_cast<const MlpPolicy&>(*seat.target), set);
  } else {
    seat.fused_impala = std::make_unique<FusedImpala<float>>(policy, set);
  }
}

std::string ImpalaLearner::gradients_by() const {
  return rl::gradients_by(why_no_kernels(seats_.front()), setup_.actor.instruction_set);
}

ImpalaLearner::Step ImpalaLearner::step(const ShardedTrajectory& batch, double lr_factor) {
  Step step;
  team_->run([&](learner::Member& member) {
    const sync::Placement& placement = member.replica.placement();
    const Range mine{placement.mine.begin - shards_.begin, placement.mine.end - shards_.begin};
    member.learner.batch().load_shards(batch.batches(mine), setup_.impala.batch_rows(), learner::Tail::kDrop);
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

learner::LearnerReport ImpalaLearner::step_of(Seat& seat, learner::Learner& learner, double lr_factor) {
  fault_point("impala.learn");
  const Limits limits{.deadline = Deadline::after(patience_), .stop = {}};
  if (seat.fused_impala || seat.fused_appo) {
    const auto gradients = [&](const learner::ShardRows& rows) {
      ImpalaNumbers& numbers = numbers_of(rows.shard);
      if (seat.fused_impala) return seat.fused_impala->run(rows, setup_.impala, numbers);
      return seat.fused_appo->run(rows, setup_.impala, *setup_.appo, numbers);
    };
    return learner.step(0, learner::GradientFunction(std::cref(gradients)), lr_factor, limits);
  }
  const auto loss = [&](const learner::ShardBatch& rows) {
    ImpalaNumbers& numbers = numbers_of(rows.shard);
    if (!seat.target) return impala_loss(*seat.policy, rows, setup_.impala, numbers);
    return appo_loss(*seat.policy, *seat.target, rows, setup_.impala, *setup_.appo, numbers);
  };
  return learner.step(0, learner::LossFunction(std::cref(loss)), lr_factor, limits);
}

void ImpalaLearner::renew_targets() {
  for (const Seat& seat : seats_) {
    if (seat.target) copy_weights(seat.weights, seat.target_weights);
  }
}

std::uint64_t ImpalaLearner::passes() const { return team_->member(0).learner.passes(); }

std::int64_t ImpalaLearner::rows_trained() const {
  std::int64_t rows = 0;
  for (int local = 0; local < team_->size(); ++local) rows += team_->member(local).learner.rows_trained();
  return rows;
}

model::NamedTensors ImpalaLearner::target() const {
  const Seat& first = seats_.front();
  return first.target ? model::named_state_of(*first.target) : model::NamedTensors{};
}

learner::StateParts ImpalaLearner::save() {
  learner::StateParts parts;
  model::NamedTensors state = team_->state();  // of all ranks together
  if (setup_.ranks.leads()) {
    parts.emplace_back("state", std::move(state));
    if (setup_.appo) parts.emplace_back(kTarget, target());
  }
  for (int local = 0; local < team_->size(); ++local) {
    sync::Replica& replica = team_->member(local).replica;
    const Range mine = replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard)
      parts.emplace_back(shard_part(shard), stream_of(replica, shard));
  }
  return parts;
}

std::vector<std::string> ImpalaLearner::part_names() const {
  std::vector<std::string> names{"state"};
  if (setup_.appo) names.emplace_back(kTarget);
  for (int shard = 0; shard < setup_.shards; ++shard) names.push_back(shard_part(shard));
  return names;
}

void ImpalaLearner::load(const learner::ReadPart& read_part) {
  team_->load_state(read_part("state"));
  for (int local = 0; local < team_->size(); ++local) {
    sync::Replica& replica = team_->member(local).replica;
    const Range mine = replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) load_stream(read_part(shard_part(shard)), replica, shard);
  }
  if (!setup_.appo) return;
  const model::NamedTensors target = read_part(kTarget);
  for (const Seat& seat : seats_) model::copy_named(target, model::named_state_of(*seat.target));
}

}  // namespace tandem::rl
