#include "tandem/rl/env/wrappers/wrapping_group.h"

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

constexpr std::uint32_t kWrapperStateFormat = 1;

}  // namespace

WrappingGroup::WrappingGroup(std::unique_ptr<EnvGroup> inner, std::string name,
                             const std::function<Spec(const Spec&)>& spec_of)
    : inner_(std::move(inner)),
      name_(std::move(name)),
      spec_(spec_of(inner_->spec())),
      rows_(static_cast<std::size_t>(inner_->size())) {}

void WrappingGroup::reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) {
  inner_->reset(seeds, first_arrays(out));
  begun(seeds, out);
}

void WrappingGroup::step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) {
  TANDEM_CHECK(rows.size() == rows_, spec_.id, ": ", rows.size(), " rows for ", rows_);
  step_some(rows, actions, out);
}

void WrappingGroup::step_inner(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) {
  if (rows.empty()) return inner_->step(actions, out);
  if (by_row_ == nullptr) by_row_ = stepped_by_row(*inner_);
  TANDEM_CHECK(by_row_ != nullptr, name_, " of ", spec_.id, ": its inner group cannot step by rows");
  by_row_->step_rows(rows, actions, out);
}

bool WrappingGroup::can_reward_goals() const {
  const auto goals_of = [](const Spec& spec) {
    std::vector<Leaf> goals;
    for (const Leaf& leaf : spec.observation) {
      if (leaf.name == kAchievedGoal || leaf.name == kDesiredGoal) goals.push_back(leaf);
    }
    return goals;
  };
  return rewards_goals() && goals_of(spec_) == goals_of(inner_->spec()) && goal_rewards_of(*inner_) != nullptr;
}

void WrappingGroup::reward_goals(const GoalRows& rows) {
  goal_rewards_of(*inner_)->reward_goals(rows);
  for (double& reward : std::span(rows.reward, static_cast<std::size_t>(rows.rows))) reward = changed_reward(reward);
}

std::vector<std::byte> WrappingGroup::save() const {
  const std::vector<std::byte> its = inner_->save();
  if (its.empty()) return {};
  StateWriter writer;
  writer.put_group(kWrapperStateFormat, name_, rows_);
  put_state(writer);
  writer.put_bytes(its);
  return writer.take();
}

void WrappingGroup::load(std::span<const std::byte> state, const EnvArrays& out) {
  StateReader reader(state, concat("wrapper '", name_, "' of '", spec_.id, "'"));
  reader.expect_group(kWrapperStateFormat, name_, rows_);
  get_state(reader);
  const std::span<const std::byte> its = reader.get_bytes();
  reader.expect_end();
  inner_->load(its, first_arrays(out));
  loaded(out);
}

}  // namespace tandem::rl
