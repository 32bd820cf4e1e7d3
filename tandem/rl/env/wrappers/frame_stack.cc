#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/images.h"
#include "tandem/rl/env/wrappers/leaf_map.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

std::vector<double> repeated(const std::vector<double>& values, std::int64_t times) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), values.begin(), values.end());
  return all;
}

// Images stack along their channels. Others get a dimension of their own, in front; the bytes are the same.
Leaf stacked(const Leaf& own, std::int64_t frames) {
  Leaf leaf = own;
  if (own.type == ElementType::kUInt8 && own.shape.size() == 3) {
    leaf.shape[0] *= frames;
  } else {
    leaf.shape.insert(leaf.shape.begin(), frames);
  }
  leaf.low = repeated(own.low, frames);
  leaf.high = repeated(own.high, frames);
  return leaf;
}

std::string why_not_stacked(const Leaf& leaf) {
  const auto image = image_shape(leaf);
  return image && image->channels_are_last ? concat("is an image of [", joined(leaf.shape),
                                                    "], whose channels are last; put channels_first before it")
                                           : "";
}

Spec with_stacked_frames(const Spec& inner, std::int64_t frames, const std::string& leaf) {
  const std::vector<bool> is_chosen = chosen_leaves(inner, leaf, why_not_stacked);
  Spec spec = inner;
  for (std::size_t l = 0; l < is_chosen.size(); ++l) {
    if (is_chosen[l]) spec.observation[l] = stacked(inner.observation[l], frames);
  }
  return spec;
}

// The last frames of one leaf of all environments, each environment's in a ring.
class FrameRings {
 public:
  FrameRings(const Leaf& own, std::size_t leaf, std::size_t rows, std::size_t frames, StackPadding padding)
      : leaf_(leaf), bytes_(own.bytes()), frames_(frames), now_(rows * bytes_), last_(rows * bytes_) {
    rings_.resize(rows * frames * bytes_);
    if (padding == StackPadding::kZero) zero_ = zero_frame(own, 1);
  }

  [[nodiscard]] std::size_t leaf() const { return leaf_; }
  // Where the inner group writes.
  [[nodiscard]] std::byte* now() { return now_.data(); }
  [[nodiscard]] std::byte* last() { return last_.data(); }

  // `newest`: the place of the newest frame in environment e's ring.
  void begin(std::size_t e, std::size_t newest) {
    for (std::size_t i = 0; i < frames_; ++i)
      std::memcpy(frame(e, i), zero_.empty() || i == newest ? now_.data() + e * bytes_ : zero_.data(), bytes_);
  }
  void push(std::size_t e, std::size_t newest) { std::memcpy(frame(e, newest), now_.data() + e * bytes_, bytes_); }
  void show(std::size_t e, std::size_t newest, std::byte* shown) const {
    std::byte* const row = shown + e * frames_ * bytes_;
    const std::size_t older = frames_ - 1 - newest;  // frames behind the newest, which are the oldest
    if (older > 0) std::memcpy(row, frame(e, newest + 1), older * bytes_);
    std::memcpy(row + older * bytes_, frame(e, 0), (newest + 1) * bytes_);
  }
  // The stack that an episode ends with: that of before, without its oldest, and the last frame.
  void show_last(std::size_t e, std::size_t newest, std::byte* shown) const {
    show(e, newest, shown);
    std::byte* const row = shown + e * frames_ * bytes_;
    std::memmove(row, row + bytes_, (frames_ - 1) * bytes_);
    std::memcpy(row + (frames_ - 1) * bytes_, last_.data() + e * bytes_, bytes_);
  }

  void put(StateWriter& writer) const { writer.put_bytes(rings_); }
  void get(StateReader& reader) {
    const std::span<const std::byte> bytes = reader.get_bytes();
    if (bytes.size() != rings_.size()) reader.fail("its frames are of another size");
    std::memcpy(rings_.data(), bytes.data(), bytes.size());
  }

 private:
  [[nodiscard]] std::byte* frame(std::size_t e, std::size_t i) { return rings_.data() + (e * frames_ + i) * bytes_; }
  [[nodiscard]] const std::byte* frame(std::size_t e, std::size_t i) const {
    return rings_.data() + (e * frames_ + i) * bytes_;
  }

  const std::size_t leaf_, bytes_, frames_;
  std::vector<std::byte> now_, last_;  // what the inner group shows
  std::vector<std::byte> rings_, zero_;
};

class FrameStackGroup final : public WrappingGroup {
 public:
  FrameStackGroup(std::unique_ptr<EnvGroup> inner_group, std::int64_t frames, StackPadding padding,
                  const std::string& leaf)
      : WrappingGroup(std::move(inner_group), "frame_stack",
                      [&](const Spec& its) { return with_stacked_frames(its, frames, leaf); }),
        frames_(static_cast<std::size_t>(frames)),
        newest_(rows()) {
    const std::vector<bool> is_chosen = chosen_leaves(inner().spec(), leaf, why_not_stacked);
    for (std::size_t l = 0; l < is_chosen.size(); ++l) {
      if (is_chosen[l]) rings_.emplace_back(inner().spec().observation[l], l, rows(), frames_, padding);
    }
  }

 protected:
  const EnvArrays& first_arrays(const EnvArrays& out) override {
    arrays_ = out;  // takes no memory but the first time
    for (FrameRings& its : rings_) {
      arrays_.observation[its.leaf()] = its.now();
      if (!out.final_observation.empty()) arrays_.final_observation[its.leaf()] = its.last();
    }
    return arrays_;
  }
  void begun(std::span<const std::uint64_t> /*seeds*/, const EnvArrays& out) override {
    for (std::size_t e = 0; e < rows(); ++e) begin(e, out);
  }
  void loaded(const EnvArrays& out) override {
    for (std::size_t e = 0; e < rows(); ++e) show(e, out);
  }
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    step_inner(which, actions, first_arrays(out));
    for (std::size_t e = 0; e < rows(); ++e) {
      if (!makes_a_step(which, e)) continue;
      if (has_ended(out, e)) {
        if (!out.final_observation.empty()) {
          for (const FrameRings& its : rings_) its.show_last(e, newest_[e], out.final_observation[its.leaf()]);
        }
        begin(e, out);
      } else {
        newest_[e] = (newest_[e] + 1) % frames_;
        for (FrameRings& its : rings_) its.push(e, newest_[e]);
        show(e, out);
      }
    }
  }
  void put_state(StateWriter& writer) const override {
    for (const std::size_t newest : newest_) writer.put(std::uint64_t{newest});
    for (const FrameRings& its : rings_) its.put(writer);
  }
  void get_state(StateReader& reader) override {
    for (std::size_t& newest : newest_) {
      newest = reader.get<std::uint64_t>();
      if (newest >= frames_) reader.fail(concat("frame ", newest, " of ", frames_, " is its newest"));
    }
    for (FrameRings& its : rings_) its.get(reader);
  }

 private:
  void begin(std::size_t e, const EnvArrays& out) {
    newest_[e] = frames_ - 1;
    for (FrameRings& its : rings_) its.begin(e, newest_[e]);
    show(e, out);
  }
  void show(std::size_t e, const EnvArrays& out) const {
    for (const FrameRings& its : rings_) its.show(e, newest_[e], out.observation[its.leaf()]);
  }

  const std::size_t frames_;
  std::vector<std::size_t> newest_;  // by environment: the place of its newest frame, in the rings of all leaves
  std::vector<FrameRings> rings_;
  EnvArrays arrays_;
};

}  // namespace

EnvWrapper frame_stack(std::int64_t frames, StackPadding padding, const std::string& leaf) {
  return {.spec_of = [frames, leaf](const Spec& inner) { return with_stacked_frames(inner, frames, leaf); },
          .around = [frames, padding, leaf](std::unique_ptr<EnvGroup> inner,
                                            std::uint64_t /*place*/) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<FrameStackGroup>(std::move(inner), frames, padding, leaf);
          },
          .stacks_of =
              [frames, padding, leaf](const Spec& inner, FrameStacks its) {
                const std::vector<bool> is_chosen = chosen_leaves(inner, leaf, why_not_stacked);
                its.resize(is_chosen.size());
                for (std::size_t l = 0; l < is_chosen.size(); ++l) {
                  if (is_chosen[l]) its[l] = {.frames = frames, .padding = padding};
                }
                return its;
              }};
}

}  // namespace tandem::rl
