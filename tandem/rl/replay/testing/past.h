// A past of random episodes, told to a replay part step by step and remembered whole: what the part hands out can be
// compared with it. Everything is computed the naive way, from whole copies.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/replay/n_step.h"
#include "tandem/rl/replay/replay_part.h"

namespace tandem::rl {

/// A leaf of the past, and how its older frames are padded. The spec's leaf is a stack of `frames`.
struct PastLeaf {
  std::int64_t frames = 1;
  StackPadding padding = StackPadding::kFirst;
};

/// How often episodes end, of each hundred steps.
struct PastEnds {
  std::uint64_t terminated = 5, truncated = 5, both = 1;
};

class Past {
 public:
  using Bytes = std::vector<std::byte>;

  Past(Spec past_spec, int envs, std::uint64_t seed, PastEnds ends = {}, std::vector<PastLeaf> leaves = {})
      : spec_(std::move(past_spec)),
        envs_(static_cast<std::size_t>(envs)),
        random_(seed),
        ends_(ends),
        leaves_(std::move(leaves)),
        buffers_(spec_, envs_),
        discrete_(envs_ * action_count()),
        box_(envs_ * action_count()) {
    leaves_.resize(spec_.observation.size());
  }

  [[nodiscard]] const Spec& spec() const { return spec_; }
  [[nodiscard]] int envs() const { return static_cast<int>(envs_); }
  [[nodiscard]] std::int64_t now() const { return static_cast<std::int64_t>(steps_.size()) - 1; }

  /// New episodes everywhere; those under way are cut.
  // New episodes everywhere; those that were under way end as if their time limit had come.
  void begin(ReplayPart& part) {
    if (steps_.empty()) {
      steps_.emplace_back(envs_);
    } else if (steps_.size() > 1) {
      for (std::size_t e = 0; e < envs_; ++e) {
        Row& last = steps_[steps_.size() - 2][e];
        if (last.end != 0) continue;
        last.end = kStepTruncated;
        last.next = steps_.back()[e].observation;
        last.next_mask.assign(last.mask.size(), std::byte{1});
      }
    }
    for (std::size_t e = 0; e < envs_; ++e) show_first(e);
    part.begin(buffers_.arrays());
  }
  /// One step with random actions, rewards and ends.
  // One step of all environments, told to the part and remembered.
  void step(ReplayPart& part) {
    make_step();
    part.append(actions(), buffers_.arrays());
  }
  void steps(ReplayPart& part, int count) {
    for (int i = 0; i < count; ++i) step(part);
  }
  /// The same in two: what append() will be given, which a test may change before.
  void make_step() {
    steps_.emplace_back(envs_);
    for (std::size_t e = 0; e < envs_; ++e) draw_row(e);
  }
  [[nodiscard]] EnvActions actions() const {
    return std::holds_alternative<Box>(spec_.action) ? EnvActions{.box = box_.data()}
                                                     : EnvActions{.discrete = discrete_.data()};
  }
  [[nodiscard]] const EnvArrays& arrays() const { return buffers_.arrays(); }

  struct Row {
    std::vector<Bytes> observation, next;  // by leaf; next: also of ended episodes
    Bytes action, mask, next_mask;
    double reward = 0;
    std::uint8_t end = 0;
  };
  /// Row `number` of the part: complete once its step was made.
  [[nodiscard]] const Row& row(std::int64_t number) const {
    return steps_[static_cast<std::size_t>(number) / envs_][static_cast<std::size_t>(number) % envs_];
  }

 private:
  [[nodiscard]] std::size_t action_count() const { return static_cast<std::size_t>(action_elements(spec_.action)); }
  [[nodiscard]] Row& made(std::size_t e) { return steps_[steps_.size() - 2][e]; }
  [[nodiscard]] Row& present(std::size_t e) { return steps_.back()[e]; }

  // An element that the leaf allows.
  // One element within what the leaf's type holds.
  void draw_element(const Leaf& leaf, std::byte* into) {
    const auto put = [&](auto value) { std::memcpy(into, &value, sizeof(value)); };
    switch (leaf.type) {
      case ElementType::kFloat32:
        return put(static_cast<float>(random_.normal()));
      case ElementType::kUInt8:
        return put(static_cast<std::uint8_t>(random_.below(256)));
      case ElementType::kInt64:
        return put(static_cast<std::int64_t>(random_.below(3)));
      case ElementType::kFloat64:
        return put(1.7e9 + 0.01 * random_.normal());
    }
  }
  Bytes draw_frame(std::size_t l) {
    const Leaf& leaf = spec_.observation[l];
    Bytes frame(leaf.bytes() / static_cast<std::size_t>(leaves_[l].frames));
    for (std::size_t at = 0; at < frame.size(); at += size_of(leaf.type)) draw_element(leaf, frame.data() + at);
    return frame;
  }
  Bytes draw_mask() {
    Bytes mask(spec_.has_action_mask ? static_cast<std::size_t>(mask_elements(spec_.action)) : 0);
    for (std::byte& allowed : mask) allowed = static_cast<std::byte>(random_.below(2));
    return mask;
  }
  // A stack with the newest frame at its end and without its oldest.
  static Bytes joined_frames(const Bytes& older, const Bytes& newest) {
    Bytes stack(older.begin() + static_cast<std::ptrdiff_t>(newest.size()), older.end());
    stack.insert(stack.end(), newest.begin(), newest.end());
    return stack;
  }
  void show(std::size_t e) {
    for (std::size_t l = 0; l < spec_.observation.size(); ++l) {
      const Bytes& bytes = present(e).observation[l];
      std::memcpy(buffers_.arrays().observation[l] + e * bytes.size(), bytes.data(), bytes.size());
    }
    present(e).mask = draw_mask();
    const Bytes& mask = present(e).mask;
    if (!mask.empty()) std::memcpy(buffers_.arrays().action_mask + e * mask.size(), mask.data(), mask.size());
  }
  void show_first(std::size_t e) {
    present(e).observation.clear();
    for (std::size_t l = 0; l < spec_.observation.size(); ++l) {
      const Bytes frame = draw_frame(l);
      Bytes stack;
      for (std::int64_t i = 0; i + 1 < leaves_[l].frames; ++i) {
        const Bytes pad = leaves_[l].padding == StackPadding::kZero ? Bytes(frame.size()) : frame;
        stack.insert(stack.end(), pad.begin(), pad.end());
      }
      stack.insert(stack.end(), frame.begin(), frame.end());
      present(e).observation.push_back(stack);
    }
    show(e);
  }
  // Any action of the space, within no mask: the part does not look at what actions mean.
  void draw_action(std::size_t e) {
    const std::vector<std::int64_t> choices = choices_of(spec_.action);
    for (std::size_t i = 0; i < action_count(); ++i) {
      if (choices.empty()) box_[e * action_count() + i] = static_cast<float>(random_.normal());
      if (!choices.empty()) {
        const auto choice = random_.below(static_cast<std::uint64_t>(choices[i]));
        discrete_[e * action_count() + i] = static_cast<std::int64_t>(choice);
      }
    }
    const std::size_t bytes = action_count() * (choices.empty() ? sizeof(float) : sizeof(std::int64_t));
    const auto* from = choices.empty() ? reinterpret_cast<const std::byte*>(box_.data())
                                       : reinterpret_cast<const std::byte*>(discrete_.data());
    made(e).action.assign(from + e * bytes, from + (e + 1) * bytes);
  }
  // Ends are rare, so that episodes are longer than the windows of n steps, and some are shorter.
  std::uint8_t draw_end() {
    const std::uint64_t drawn = random_.below(100);
    if (drawn < ends_.terminated) return kStepTerminated;
    if (drawn < ends_.terminated + ends_.truncated) return kStepTruncated;
    return drawn < ends_.terminated + ends_.truncated + ends_.both ? kStepTerminated | kStepTruncated : 0;
  }
  void draw_row(std::size_t e) {
    draw_action(e);
    Row& row = made(e);
    row.reward = random_.normal();
    row.end = draw_end();
    buffers_.arrays().reward[e] = row.reward;
    buffers_.arrays().terminated[e] = row.end & kStepTerminated;
    buffers_.arrays().truncated[e] = (row.end & kStepTruncated) != 0 ? 1 : 0;
    row.next.clear();
    for (std::size_t l = 0; l < spec_.observation.size(); ++l)
      row.next.push_back(joined_frames(row.observation[l], draw_frame(l)));
    if (row.end == 0) {
      present(e).observation = row.next;
      show(e);
      row.next_mask = present(e).mask;
      return;
    }
    for (std::size_t l = 0; l < row.next.size(); ++l)
      std::memcpy(buffers_.arrays().final_observation[l] + e * row.next[l].size(), row.next[l].data(),
                  row.next[l].size());
    show_first(e);
    row.next_mask = Bytes(present(e).mask.size(), std::byte{1});
  }

  const Spec spec_;
  const std::size_t envs_;
  Philox random_;
  const PastEnds ends_;
  std::vector<PastLeaf> leaves_;
  EnvBuffers buffers_;
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_;
  std::vector<std::vector<Row>> steps_;  // the last one is the present
};

}  // namespace tandem::rl
