#include "tandem/rl/rollout/rollout_worker.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/rounding.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/rollout/act_on.h"
#include "tandem/rl/rollout/group_results.h"
#include "tandem/rl/rollout/saved_envs.h"

namespace tandem::rl {
namespace {

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

constexpr std::uint32_t kFormat = 1;

// Room in `all` for a row `at`, of as many rows as `like` or more.
void make_room(at::Tensor& all, const at::Tensor& like, std::int64_t at) {
  if (all.defined() && all.size(0) > at) return;
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[0] = std::max<std::int64_t>(2 * at, like.size(0));
  const at::Tensor larger = at::zeros(sizes, like.options());
  if (all.defined()) larger.narrow(0, 0, all.size(0)).copy_(all);
  all = larger;
}

}  // namespace

RolloutWorker::RolloutWorker(std::unique_ptr<EnvGroup> group, std::unique_ptr<Actor> actor,
                             const RolloutOptions& options, int first_env)
    : group_(std::move(group)),
      actor_(std::move(actor)),
      options_(options),
      rows_(group_->size()),
      first_env_(first_env),
      episodes_(rows_, first_env),
      moments_(group_->spec(), options.normalizer),
      intake_(group_->spec(), options.normalizer.observations, options.remarks),
      present_(intake_.memory(rows_)),
      final_(intake_.memory(rows_)),
      reward_(static_cast<std::size_t>(rows_)),
      discounted_(static_cast<std::size_t>(rows_)),
      terminated_(static_cast<std::size_t>(rows_)),
      truncated_(static_cast<std::size_t>(rows_)),
      metrics_(static_cast<std::size_t>(rows_) * group_->spec().metrics.size()) {
  const Spec& spec = group_->spec();
  if (spec.has_action_mask) present_mask_ = at::ones({rows_, mask_elements(spec.action)}, at::kByte);
  arrays_.observation.resize(present_.size());
  for (const at::Tensor& leaf : final_) arrays_.final_observation.push_back(bytes_of(leaf));
  arrays_.reward = reward_.data();
  arrays_.terminated = terminated_.data();
  arrays_.truncated = truncated_.data();
  if (!metrics_.empty()) arrays_.metrics = metrics_.data();
  if (std::holds_alternative<Box>(spec.action)) {
    box_.resize(static_cast<std::size_t>(rows_ * action_elements(spec.action)));
  }
  if (options.time_limit == TimeLimit::kBootstrap) expect_truncated();
}

Fragment RolloutWorker::make_fragment() const {
  const at::Tensor state = actor_->state();
  if (!state.defined()) return {group_->spec(), options_.steps, rows_};
  const KeptStates states{.sequences = SequenceCut(options_.steps, options_.sequences).count(), .size = state.size(1)};
  return {group_->spec(), options_.steps, rows_, states};
}

Fragment& RolloutWorker::fragment() {
  if (!own_) own_ = std::make_unique<Fragment>(make_fragment());
  return *own_;
}

// Makes memory for one cut episode of each row; where one fragment has more of them, it grows.
void RolloutWorker::expect_truncated() {
  const Fragment one(group_->spec(), 1, rows_);
  truncated_observation_.resize(final_.size());
  for (std::size_t leaf = 0; leaf < final_.size(); ++leaf)
    make_room(truncated_observation_[leaf], one.observation_at(0)[leaf], 0);
  truncated_views_.reserve(final_.size());
  truncated_at_.reserve(reward_.size());
  truncated_value_.reserve(reward_.size());
}

void RolloutWorker::reset(std::uint64_t run_seed) {
  const KeptRounding kept;
  group_->reset(seeds_of_envs(run_seed, first_env_, rows_), present_arrays());
  actor_->episodes_ended(std::vector<std::uint8_t>(reward_.size(), 1));
  std::fill(discounted_.begin(), discounted_.end(), 0.0);
  episodes_ = EpisodeTracker(rows_, first_env_);
}

// Where the environments write at time t: the fragment's own rows, so that nothing is copied, unless the policy sees
// other numbers.
const EnvArrays& RolloutWorker::arrays_at(int t) {
  const std::vector<at::Tensor>& target = fragment_->observation_at(t);
  for (std::size_t leaf = 0; leaf < target.size(); ++leaf)
    arrays_.observation[leaf] = bytes_of(intake_.converts(leaf) ? present_[leaf] : target[leaf]);
  if (present_mask_.defined())
    arrays_.action_mask = fragment_->action_mask.data_ptr<std::uint8_t>() + t * fragment_->action_mask.stride(0);
  return arrays_;
}

// Where the environments write between fragments: nobody learns from these rows, and the next fragment may be another.
const EnvArrays& RolloutWorker::present_arrays() {
  for (std::size_t leaf = 0; leaf < present_.size(); ++leaf) arrays_.observation[leaf] = bytes_of(present_[leaf]);
  if (present_mask_.defined()) arrays_.action_mask = present_mask_.data_ptr<std::uint8_t>();
  return arrays_;
}

// A fragment: begin() puts the present observation into row 0; each step acts on row t and lets the environments write
// row t + 1; end() values row T and bootstraps cut episodes.
const Fragment& RolloutWorker::collect(const Normalizers& frozen) {
  const Span span("rollout");
  begin(frozen);
  for (int t = 0; t < options_.steps; ++t) step(frozen);
  return end();
}

void RolloutWorker::begin(const Normalizers& frozen, Fragment& into) {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(into.rows == rows_, "a fragment of ", into.rows, " rows for a group of ", rows_);
  fragment_ = &into;
  moments_.clear();
  truncated_at_.clear();
  actor_->refresh();
  // Where the last fragment ended, this one begins.
  for (std::size_t leaf = 0; leaf < present_.size(); ++leaf) {
    if (!intake_.converts(leaf)) into.observation_at(0)[leaf].copy_(present_[leaf]);
  }
  show_present(0, frozen);
  if (present_mask_.defined()) into.action_mask[0].copy_(present_mask_);
  at_ = 0;
}

void RolloutWorker::step(const Normalizers& frozen) {
  choose();
  advance(frozen);
}

void RolloutWorker::choose() {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(fragment_ != nullptr && at_ < options_.steps, "step ", at_, " of a fragment of ", options_.steps);
  keep_state(at_);
  act(at_);
}

void RolloutWorker::advance(const Normalizers& frozen) {
  const at::NoGradGuard no_grad;
  const int t = at_;
  step_environments(t);
  record(t, frozen);
  if (options_.normalizer.observations) gather_moments();
  show_present(t + 1, frozen);
  at_ = t + 1;
}

// The fragment ends within episodes: the value of the observation that follows its last step stands for what comes
// later.
const Fragment& RolloutWorker::end() {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(fragment_ != nullptr && at_ > 0, at_, " steps of a fragment of ", options_.steps);
  fragment_->steps = at_;
  actor_->evaluate(fragment_->observation_at(at_), actor_->state(),
                   fragment_->value.data_ptr<float>() + std::ptrdiff_t{at_} * rows_);
  bootstrap();
  keep_present();
  return *std::exchange(fragment_, nullptr);
}

// Of leaves that are converted present_ has what the environments wrote already; of others it is in the fragment, which
// may change.
void RolloutWorker::keep_present() {
  for (std::size_t leaf = 0; leaf < present_.size(); ++leaf) {
    if (!intake_.converts(leaf)) present_[leaf].copy_(fragment_->observation_at(at_)[leaf]);
  }
  if (present_mask_.defined()) present_mask_.copy_(fragment_->action_mask[at_]);
}

void RolloutWorker::rest() {
  moments_.clear();
  fragment().steps = 0;
}

// Keeps what the policy remembers before step t, if a sequence begins there.
void RolloutWorker::keep_state(int t) {
  if (!fragment_->state.defined() || t % options_.sequences.length != 0) return;
  const std::int64_t sequence = t / options_.sequences.length;
  if (sequence < fragment_->state.size(0)) fragment_->state[sequence].copy_(actor_->state());
}

void RolloutWorker::act(int t) {
  const Span span("act");
  const std::ptrdiff_t row = std::ptrdiff_t{t} * rows_;
  Decisions decisions{.log_prob = fragment_->log_prob.data_ptr<float>() + row,
                      .value = fragment_->value.data_ptr<float>() + row};
  const std::int64_t stride = fragment_->action.stride(0) * t;
  if (box_.empty()) {
    decisions.discrete = fragment_->action.data_ptr<std::int64_t>() + stride;
  } else {
    decisions.box = fragment_->action.data_ptr<float>() + stride;
  }
  const at::Tensor mask = fragment_->action_mask.defined() ? fragment_->action_mask[t] : at::Tensor();
  act_on(group_->spec(), *actor_, fragment_->observation_at(t), mask, decisions);
}

// The fragment keeps the actions that the policy drew; the environments get them within bounds.
void RolloutWorker::step_environments(int t) {
  const Span span("step environments");
  EnvActions actions;
  const std::int64_t stride = fragment_->action.stride(0) * t;
  if (box_.empty()) {
    actions.discrete = fragment_->action.const_data_ptr<std::int64_t>() + stride;
  } else {
    to_bounds(std::get<Box>(group_->spec().action), fragment_->action.const_data_ptr<float>() + stride, rows_,
              box_.data());
    actions.box = box_.data();
  }
  const CallMark::Call step = mark_.enter();
  const KeptRounding kept;
  group_->step(actions, arrays_at(t + 1));
}

// One pass over the rows after each step: rewards as the learner sees them, ends of episodes, and the discounted
// returns whose spread scales rewards.
void RolloutWorker::record(int t, const Normalizers& frozen) {
  episodes_.record(t, reward_.data(), terminated_.data(), truncated_.data(), metrics_);
  float* reward = fragment_->reward.data_ptr<float>() + std::ptrdiff_t{t} * rows_;
  std::uint8_t* done = fragment_->done.data_ptr<std::uint8_t>() + std::ptrdiff_t{t} * rows_;
  bool any_done = false;
  for (std::size_t row = 0; row < reward_.size(); ++row) {
    done[row] = terminated_[row] | truncated_[row];
    any_done |= done[row] != 0;
    reward[row] = frozen.scale_reward(reward_[row]);
    const bool goes_on = truncated_[row] != 0 && terminated_[row] == 0;
    if (goes_on && options_.time_limit == TimeLimit::kBootstrap) keep_truncated(t, static_cast<int>(row), frozen);
    if (!options_.normalizer.rewards) continue;
    discounted_[row] = options_.gamma * discounted_[row] + reward_[row];
    moments_.discounted_return.add(&discounted_[row]);
    if (done[row] != 0) discounted_[row] = 0;
  }
  if (any_done) actor_->episodes_ended({done, reward_.size()});
}

// Leaves are of floats (the constructor has checked that).
void RolloutWorker::gather_moments() {
  for (std::size_t leaf = 0; leaf < present_.size(); ++leaf) {
    const std::byte* row = bytes_of(present_[leaf]);
    const std::size_t bytes = group_->spec().observation[leaf].bytes();
    for (int i = 0; i < rows_; ++i, row += bytes) intake_.gather(leaf, row, moments_.observation[leaf]);
  }
}

void RolloutWorker::show_present(int t, const Normalizers& frozen) {
  if (!intake_.converts_any()) return;
  for (std::size_t leaf = 0; leaf < present_.size(); ++leaf) {
    if (intake_.converts(leaf))
      intake_.show(leaf, bytes_of(present_[leaf]), bytes_of(fragment_->observation_at(t)[leaf]), rows_, &frozen);
  }
}

// Remembers the last observation of an episode that was cut short, as the policy would have seen it.
void RolloutWorker::keep_truncated(int t, int row, const Normalizers& frozen) {
  const auto kept = static_cast<std::int64_t>(truncated_at_.size());
  truncated_at_.push_back(std::ptrdiff_t{t} * rows_ + row);
  for (std::size_t leaf = 0; leaf < final_.size(); ++leaf) {
    at::Tensor& all = truncated_observation_[leaf];
    const at::Tensor& seen = fragment_->observation_at(t)[leaf];
    make_room(all, seen, kept);
    const auto at = static_cast<std::size_t>(row), rows = static_cast<std::size_t>(rows_);
    intake_.show(leaf, bytes_of(final_[leaf]) + at * (final_[leaf].nbytes() / rows),
                 bytes_of(all) + static_cast<std::size_t>(kept) * (seen.nbytes() / rows), 1, &frozen, at);
  }
  if (!fragment_->state.defined()) return;
  const at::Tensor state = actor_->state();
  make_room(truncated_state_, state, kept);
  truncated_state_[kept].copy_(state[row]);
}

// An episode that the time limit ended goes on in truth: gamma * V(last observation) stands for the rest of its return.
void RolloutWorker::bootstrap() {
  if (truncated_at_.empty()) return;
  const auto count = static_cast<std::int64_t>(truncated_at_.size());
  truncated_views_.clear();
  for (const at::Tensor& leaf : truncated_observation_) truncated_views_.push_back(leaf.narrow(0, 0, count));
  truncated_value_.resize(truncated_at_.size());
  actor_->evaluate(truncated_views_, truncated_state_.defined() ? truncated_state_.narrow(0, 0, count) : at::Tensor(),
                   truncated_value_.data());
  float* reward = fragment_->reward.data_ptr<float>();
  for (std::size_t i = 0; i < truncated_at_.size(); ++i)
    reward[truncated_at_[i]] += static_cast<float>(options_.gamma) * truncated_value_[i];
}

// Their reader is take_results() of group_results.h, which expects moments before episodes.
void RolloutWorker::append_results(std::vector<double>& numbers) {
  moments_.append_numbers(numbers);
  append_episodes(episodes_.finished(), numbers);
  episodes_.clear_finished();
}

// load() reads in the same order. The bytes of the environments are empty where they cannot be saved, and where they
// were lost while they were.
std::vector<std::byte> RolloutWorker::save() const {
  StateWriter out;
  out.put(kFormat);
  out.put(static_cast<std::int64_t>(rows_));
  const std::vector<std::byte> environments = group_->can_save() ? group_->save() : std::vector<std::byte>();
  out.put_bytes(environments);
  out.put_bytes(actor_->save());
  for (const double value : discounted_) out.put(value);
  for (const double value : episodes_.running_return) out.put(value);
  for (const std::int64_t value : episodes_.running_length) out.put(value);
  return out.take();
}

RolloutWorker::Resumed RolloutWorker::load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes) {
  StateReader in(state, concat("env group with environment ", first_env_));
  in.expect(kFormat, "its format");
  in.expect(static_cast<std::int64_t>(rows_), "its number of rows");
  const std::span<const std::byte> environments = in.get_bytes();
  actor_->load(in.get_bytes());
  for (double& value : discounted_) value = in.get<double>();
  for (double& value : episodes_.running_return) value = in.get<double>();
  for (std::int64_t& value : episodes_.running_length) value = in.get<std::int64_t>();
  in.expect_end();
  const Resumed resumed = how_to_resume(*group_, environments);
  if (resumed == Resumed::kExactly) {
    group_->load(environments, present_arrays());
  } else {
    reset(seed_for_new_episodes);
  }
  return resumed;
}

std::int64_t RolloutWorker::saved_envs(std::span<const std::byte> state) {
  StateReader in(state, "env group");
  in.expect(kFormat, "its format");
  return in.get<std::int64_t>();
}

}  // namespace tandem::rl
