#include "tandem/rl/algo/off_policy/experience_worker.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/rounding.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/rl/algo/off_policy/options_of_choice.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/rollout/act_on.h"
#include "tandem/rl/rollout/group_results.h"
#include "tandem/rl/rollout/saved_envs.h"

namespace tandem::rl {
namespace {

constexpr std::uint32_t kExperienceFormat = 1;
// Streams of a shard beside that of its replay part, under the same seed.
constexpr std::uint64_t kChanceStream = 1, kNoiseStream = 2;

std::byte* memory_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

std::uint64_t replay_seed(std::uint64_t run_seed, int shard) {
  return derive_seed(run_seed, SeedPurpose::kReplay, static_cast<std::uint64_t>(shard));
}

// Stacks need their newest frame alone. Other leaves that policies see narrowed, and not normalised before, need no
// more digits in the replay than they see, but for goals.
ReplayOptions stored_as_needed(EnvGroup& group, const ExperienceOptions& worker) {
  const Spec& spec = group.spec();
  ReplayOptions options = worker.replay;
  options.leaves.resize(spec.observation.size());
  for (std::size_t leaf = 0; leaf < spec.observation.size(); ++leaf) {
    const FrameStack stack = leaf < worker.frame_stacks.size() ? worker.frame_stacks[leaf] : FrameStack();
    LeafStorage& its = options.leaves[leaf];
    if (stack.frames > 1 && stack.frames <= kMostStackFrames) {
      its.frames = static_cast<int>(stack.frames);
      its.padding = stack.padding;
    } else if (spec.observation[leaf].type == ElementType::kFloat64 && !worker.normalizer.observations) {
      its.numbers = StoredNumbers::kFloat32;
    }
  }
  options.hindsight = hindsight_of(group, worker.hindsight, worker.hindsight_goals);
  keep_for_hindsight(spec, group.size(), options);
  return options;
}

bool is_bounded(const Box& box, std::size_t side) {
  return std::isfinite(box.low[side]) && std::isfinite(box.high[side]);
}

// It scales each reward of a sum as Normalizers::scale_reward() does.
ClippedScale scale_of(const Normalizers& frozen) {
  if (!frozen.options().rewards) return {};
  return {.factor = frozen.reward_factor(), .largest = frozen.options().clip_reward};
}

void narrow(std::span<const double> from, const at::Tensor& to) {
  float* out = to.data_ptr<float>();
  for (const double number : from) *out++ = static_cast<float>(number);
}

}  // namespace

ExperienceWorker::ExperienceWorker(std::unique_ptr<EnvGroup> group, std::unique_ptr<Actor> explorer,
                                   ExperienceOptions options, std::uint64_t run_seed, int shard, int first_env)
    : group_(std::move(group)),
      explorer_(std::move(explorer)),
      options_(std::move(options)),
      rows_(group_->size()),
      first_env_(first_env),
      replay_seed_(replay_seed(run_seed, shard)),
      chance_(replay_seed_, kChanceStream),
      noise_(replay_seed_, kNoiseStream),
      episodes_(rows_, first_env),
      moments_(spec(), options_.normalizer),
      intake_(spec(), options_.normalizer.observations, options_.remarks),
      present_(intake_.memory(rows_)),
      final_(intake_.memory(rows_)) {
  make_part(options_);
  const auto envs = static_cast<std::size_t>(rows_);
  const auto numbers = envs * static_cast<std::size_t>(action_elements(spec().action));
  for (auto* each : {&reward_, &discounted_}) each->resize(envs);
  for (auto* each : {&terminated_, &truncated_, &done_}) each->resize(envs);
  for (auto* each : {&log_prob_, &value_}) each->resize(envs);
  metrics_.resize(envs * spec().metrics.size());
  const Spec as_seen = as_policies_see(spec());
  for (std::size_t leaf = 0; leaf < present_.size(); ++leaf) {
    const Leaf& its = as_seen.observation[leaf];
    seen_.push_back(intake_.converts(leaf) ? at::zeros(with_rows({rows_}, its), scalar_type(its.type))
                                           : present_[leaf]);
    arrays_.observation.push_back(memory_of(present_[leaf]));
    arrays_.final_observation.push_back(memory_of(final_[leaf]));
  }
  if (spec().has_action_mask) {
    mask_ = at::ones({rows_, mask_elements(spec().action)}, at::kByte);
    arrays_.action_mask = mask_.data_ptr<std::uint8_t>();
  }
  if (options_.hindsight != Hindsight::kNone) goals_.emplace(*group_);
  arrays_.reward = reward_.data();
  arrays_.terminated = terminated_.data();
  arrays_.truncated = truncated_.data();
  if (!metrics_.empty()) arrays_.metrics = metrics_.data();
  if (std::holds_alternative<Box>(spec().action)) {
    box_.resize(numbers);
    bounded_.resize(numbers);
  } else {
    discrete_.resize(numbers);
  }
}

void ExperienceWorker::reset(std::uint64_t seed) {
  const KeptRounding kept;
  group_->reset(seeds_of_envs(seed, first_env_, rows_), arrays_);
  part_->begin(arrays_);
  std::ranges::fill(done_, std::uint8_t{1});
  explorer_->episodes_ended(done_);
  std::ranges::fill(discounted_, 0.0);
  episodes_ = EpisodeTracker(rows_, first_env_);
}

void ExperienceWorker::begin_update() {
  moments_.clear();
  steps_made_ = 0;
}

void ExperienceWorker::step(Chooser chooser, const Normalizers& frozen) {
  begin_step(chooser, frozen);
  step_environments();
  end_step(frozen);
}

// The environment gets the action within its bounds, and the replay remembers it in the policy's units.
void ExperienceWorker::begin_step(Chooser chooser, const Normalizers& frozen) {
  const at::NoGradGuard no_grad;
  choose(chooser, frozen);
  taken_ = {.discrete = discrete_.empty() ? nullptr : discrete_.data()};
  if (box_.empty()) return;
  to_bounds(std::get<Box>(spec().action), box_.data(), rows_, bounded_.data());
  taken_.box = bounded_.data();
}

// It touches the memory of a step alone, and neither the replay nor the policy.
void ExperienceWorker::step_environments() {
  const Span span("step environments");
  const CallMark::Call step = mark_.enter();
  const KeptRounding kept;
  group_->step(taken_, arrays_);
}

void ExperienceWorker::end_step(const Normalizers& frozen) {
  const at::NoGradGuard no_grad;
  if (goals_) goals_->look_at(arrays_);
  // Back in the policy's units.
  if (!box_.empty()) taken_.box = box_.data();
  part_->append(taken_, arrays_);
  record(frozen);
  ++steps_made_;
}

// Explorers tell a log-probability and a value that nobody asks for here.
void ExperienceWorker::choose(Chooser chooser, const Normalizers& frozen) {
  if (chooser == Chooser::kChance) return choose_by_chance();
  const Span span("act");
  show(present_, seen_, rows_, frozen);
  const Decisions decisions{.discrete = discrete_.empty() ? nullptr : discrete_.data(),
                            .box = box_.empty() ? nullptr : box_.data(),
                            .log_prob = log_prob_.data(),
                            .value = value_.data()};
  act_on(spec(), *explorer_, seen_, mask_, decisions);
  cut_actions();
}

// An explorer's noise may lead out of the bounds, which are -1 and 1 in the policy's units. The replay remembers what
// was taken, as in the published TD3: critics are never asked for more.
void ExperienceWorker::cut_actions() {
  if (box_.empty()) return;
  const auto& box = std::get<Box>(spec().action);
  for (std::size_t i = 0; i < box_.size(); ++i) {
    const std::size_t side = i % box.low.size();
    if (is_bounded(box, side)) box_[i] = std::clamp(box_[i], -1.0F, 1.0F);
  }
}

// Sides of a Box without bounds have no even choice; their numbers are standard normal.
void ExperienceWorker::choose_by_chance() {
  if (const auto* box = std::get_if<Box>(&spec().action)) {
    for (std::size_t i = 0; i < box_.size(); ++i) {
      const std::size_t side = i % box->low.size();
      box_[i] = static_cast<float>(is_bounded(*box, side) ? 2 * chance_.uniform_double() - 1 : chance_.normal());
    }
    return;
  }
  const std::vector<std::int64_t> choices = choices_of(spec().action);
  const std::uint8_t* mask = mask_.defined() ? mask_.const_data_ptr<std::uint8_t>() : nullptr;
  for (std::size_t i = 0; i < discrete_.size(); ++i) {
    const std::int64_t options = choices[i % choices.size()];
    discrete_[i] = any_option(mask, options, chance_);
    if (mask != nullptr) mask += options;
  }
}

// Episodes are told in the environment's own rewards; the moments are those that normalisers merge after the update.
void ExperienceWorker::record(const Normalizers& frozen) {
  episodes_.record(steps_made_, reward_.data(), terminated_.data(), truncated_.data(), metrics_);
  bool any_done = false;
  for (std::size_t row = 0; row < reward_.size(); ++row) {
    done_[row] = terminated_[row] | truncated_[row];
    any_done |= done_[row] != 0;
    if (!frozen.options().rewards) continue;
    discounted_[row] = options_.gamma * discounted_[row] + reward_[row];
    moments_.discounted_return.add(&discounted_[row]);
    if (done_[row] != 0) discounted_[row] = 0;
  }
  if (any_done) explorer_->episodes_ended(done_);
  if (!frozen.options().observations) return;
  for (std::size_t leaf = 0; leaf < present_.size(); ++leaf) {
    const std::byte* row = memory_of(present_[leaf]);
    for (int i = 0; i < rows_; ++i, row += spec().observation[leaf].bytes())
      intake_.gather(leaf, row, moments_.observation[leaf]);
  }
}

void ExperienceWorker::show(const std::vector<at::Tensor>& raw, const std::vector<at::Tensor>& seen, std::int64_t rows,
                            const Normalizers& frozen) {
  for (std::size_t leaf = 0; leaf < raw.size(); ++leaf) {
    if (raw[leaf].data_ptr() == seen[leaf].data_ptr()) continue;
    intake_.show(leaf, memory_of(raw[leaf]), memory_of(seen[leaf]), rows, &frozen);
  }
}

// Leaves that are normalised, and goals that are stored with more digits than policies see, are drawn as they were
// stored; all others go straight to where they are wanted.
void ExperienceWorker::make_draw_memory(std::int64_t rows, TransitionRows& into) {
  const auto count = static_cast<std::size_t>(rows);
  for (auto* each : {&reward_drawn_, &discount_drawn_, &weight_drawn_}) each->resize(count);
  row_drawn_.resize(count);
  drawn_ = {};
  raw_.clear();
  raw_next_.clear();
  for (std::size_t leaf = 0; leaf < into.observation.size(); ++leaf) {
    const Leaf& stored = part_->leaves()[leaf];
    const bool is_raw =
        options_.normalizer.observations || scalar_type(stored.type) != into.observation[leaf].scalar_type();
    const auto raw = [&] { return at::zeros(with_rows({rows}, stored), scalar_type(stored.type)); };
    raw_.push_back(is_raw ? raw() : into.observation[leaf]);
    raw_next_.push_back(is_raw ? raw() : into.next_observation[leaf]);
    drawn_.observation.push_back(memory_of(raw_.back()));
    drawn_.next_observation.push_back(memory_of(raw_next_.back()));
  }
  if (box_.empty()) {
    drawn_.discrete = into.action.data_ptr<std::int64_t>();
  } else {
    drawn_.box = into.action.data_ptr<float>();
  }
  if (into.action_mask.defined()) drawn_.action_mask = into.action_mask.data_ptr<std::uint8_t>();
  if (into.next_action_mask.defined()) drawn_.next_action_mask = into.next_action_mask.data_ptr<std::uint8_t>();
  drawn_.reward = reward_drawn_.data();
  drawn_.discount = discount_drawn_.data();
  drawn_.weight = weight_drawn_.data();
  drawn_.row = row_drawn_.data();
}

// Losses take float32; sums of rewards and discounts were formed in float64.
void ExperienceWorker::draw(double beta, const Normalizers& frozen, TransitionRows& into) {
  const Span span("draw");
  const at::NoGradGuard no_grad;
  const std::int64_t rows = into.reward.size(0);
  const bool is_other = drawn_.box != (box_.empty() ? nullptr : into.action.data_ptr<float>()) ||
                        drawn_.discrete != (box_.empty() ? into.action.data_ptr<std::int64_t>() : nullptr);
  if (is_other || std::ssize(row_drawn_) != rows) make_draw_memory(rows, into);
  part_->sample(rows, drawn_, beta, scale_of(frozen));
  show(raw_, into.observation, rows, frozen);
  show(raw_next_, into.next_observation, rows, frozen);
  narrow(reward_drawn_, into.reward);
  narrow(discount_drawn_, into.discount);
  const double largest = std::ranges::max(weight_drawn_);
  for (double& weight : weight_drawn_) weight /= largest;
  narrow(weight_drawn_, into.weight);
  for (const at::Tensor& noise : into.noise) {
    for (float& number : std::span(noise.data_ptr<float>(), static_cast<std::size_t>(noise.numel())))
      number = static_cast<float>(noise_.normal());
  }
}

void ExperienceWorker::prioritize(std::span<const float> errors) {
  const std::vector<double> sizes(errors.begin(), errors.end());
  part_->update_priorities(row_drawn_, sizes);
}

void ExperienceWorker::append_results(std::vector<double>& numbers) {
  moments_.append_numbers(numbers);
  append_episodes(episodes_.finished(), numbers);
  episodes_.clear_finished();
}

// load() reads in the same order. The bytes of the environments are empty where they cannot be saved, and where they
// were lost while they were.
std::vector<std::byte> ExperienceWorker::save() const {
  StateWriter out;
  out.put(kExperienceFormat);
  out.put(static_cast<std::int64_t>(rows_));
  out.put_bytes(group_->can_save() ? group_->save() : std::vector<std::byte>());
  out.put_bytes(explorer_->save());
  for (const Philox* stream : {&chance_, &noise_}) out.put_bytes(stream->save());
  for (const double value : discounted_) out.put(value);
  for (const double value : episodes_.running_return) out.put(value);
  for (const std::int64_t value : episodes_.running_length) out.put(value);
  return out.take();
}

// The memory of one part is given back before there is another.
void ExperienceWorker::make_part(const ExperienceOptions& options) {
  part_.reset();
  part_ = std::make_unique<ReplayPart>(spec(), rows_, stored_as_needed(*group_, options), replay_seed_);
}

void ExperienceWorker::restore_replay(const ReadReplayPiece& read) {
  if (!options_.frame_stacks.empty() && !part_->fits(read)) {
    ExperienceOptions whole = options_;
    whole.frame_stacks.clear();
    make_part(whole);
    if (!part_->fits(read)) make_part(options_);
  }
  part_->restore(read);
}

ExperienceWorker::Resumed ExperienceWorker::load(std::span<const std::byte> state,
                                                 std::uint64_t seed_for_new_episodes) {
  StateReader in(state, concat("env group with environment ", first_env_));
  in.expect(kExperienceFormat, "its format");
  in.expect(static_cast<std::int64_t>(rows_), "its number of rows");
  const std::span<const std::byte> environments = in.get_bytes();
  explorer_->load(in.get_bytes());
  for (Philox* stream : {&chance_, &noise_}) stream->load(in.get_bytes());
  for (double& value : discounted_) value = in.get<double>();
  for (double& value : episodes_.running_return) value = in.get<double>();
  for (std::int64_t& value : episodes_.running_length) value = in.get<std::int64_t>();
  in.expect_end();
  const Resumed resumed = how_to_resume(*group_, environments);
  if (resumed == Resumed::kExactly) {
    group_->load(environments, arrays_);
  } else {
    reset(seed_for_new_episodes);
  }
  return resumed;
}

}  // namespace tandem::rl
