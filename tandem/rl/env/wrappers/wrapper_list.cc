// The plan: a table of all wrappers, each with the function that reads its text; and the chain, which makes the inner
// group in the form that its wrappers need and puts them around it one by one.
#include "tandem/rl/env/wrappers/wrapper_list.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tandem/base/edit_distance.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/wrapper_text.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kMostFrames = 1000;
constexpr std::int64_t kLongestSide = 4096;

struct KnownWrapper {
  WrapperInfo info;
  EnvWrapper (*read)(const WrapperText& text);
};

EnvWrapper read_frame_skip(const WrapperText& text) {
  text.refuse_leaf();
  const bool is_max = text.has_word("max");
  return frame_skip(text.integer(is_max ? 2 : 1, kMostFrames),
                    is_max ? SkippedFrames::kMaxOfTwo : SkippedFrames::kLast);
}

EnvWrapper read_sticky_actions(const WrapperText& text) {
  text.refuse_leaf();
  text.refuse_word();
  return sticky_actions(text.number(0, 0.999));
}

EnvWrapper read_time_limit(const WrapperText& text) {
  text.refuse_leaf();
  text.refuse_word();
  return time_limit(text.integer(1, std::numeric_limits<int>::max()));
}

EnvWrapper read_reward_scale(const WrapperText& text) {
  text.refuse_leaf();
  text.refuse_word();
  const double factor = text.number(-1e9, 1e9);
  if (factor == 0) text.fail("takes a number that is not 0, which would leave nothing to learn");
  return reward_scale(factor);
}

EnvWrapper read_reward_clip(const WrapperText& text) {
  text.refuse_leaf();
  text.refuse_word();
  if (text.value() == "sign") return reward_sign();
  if (text.has_value() && text.value().find("..") != std::string::npos) return reward_clip(text.range({}));
  const auto bound = parse_number<double>(text.value());
  if (!bound || !(*bound > 0 && *bound <= 1e9))
    text.fail("takes a number above 0 and at most 1e9, LOW..HIGH, or sign; 1 means -1..1");
  return reward_clip({.low = -*bound, .high = *bound});
}

EnvWrapper read_rescale_action(const WrapperText& text) {
  text.refuse_leaf();
  text.refuse_word();
  return rescale_action(text.range({}));
}

EnvWrapper read_rescale_observation(const WrapperText& text) {
  text.refuse_word();
  return rescale_observation(text.range({}), text.leaf());
}

EnvWrapper read_frame_stack(const WrapperText& text) {
  const StackPadding padding = text.has_word("zero") ? StackPadding::kZero : StackPadding::kFirst;
  return frame_stack(text.integer(1, kMostFrames), padding, text.leaf());
}

EnvWrapper read_flatten(const WrapperText& text) {
  text.refuse_value();
  text.refuse_leaf();
  return flatten();
}

EnvWrapper read_grey(const WrapperText& text) {
  text.refuse_value();
  return grey(text.leaf());
}

EnvWrapper read_resize(const WrapperText& text) {
  text.refuse_word();
  return resize(text.image_size(kLongestSide), text.leaf());
}

EnvWrapper read_channels_first(const WrapperText& text) {
  text.refuse_value();
  return channels_first(text.leaf());
}

EnvWrapper read_channels_last(const WrapperText& text) {
  text.refuse_value();
  return channels_last(text.leaf());
}

// Every wrapper is listed here, and nowhere else.
const std::vector<KnownWrapper>& table() {
  static const std::vector<KnownWrapper> all = {
      {{"frame_skip", "=N[:max]", "Makes N steps with one action. max: shows the larger one of the last two frames."},
       read_frame_skip},
      {{"sticky_actions", "=P", "Takes the action of the step before with probability P."}, read_sticky_actions},
      {{"time_limit", "=N", "Cuts episodes short after N steps; not more than the environment's own limit."},
       read_time_limit},
      {{"reward_scale", "=X", "Multiplies rewards by X."}, read_reward_scale},
      {{"reward_clip", "=X|LOW..HIGH|sign", "Cuts rewards at -X and X, or at LOW and HIGH; sign: -1, 0 or 1."},
       read_reward_clip},
      {{"rescale_action", "[=LOW..HIGH]",
        "Takes actions within LOW..HIGH, -1..1 unless said, for the bounds of a Box."},
       read_rescale_action},
      {{"frame_stack", "=N[:zero][@LEAF]",
        "Shows the last N observations. zero: zeros before the first, not that one again."},
       read_frame_stack},
      {{"flatten", "", "Shows all leaves as one of floats."}, read_flatten},
      {{"rescale_observation", "[=LOW..HIGH][@LEAF]",
        "Brings leaves of floats and uint8 from their bounds to LOW..HIGH, -1..1 unless said."},
       read_rescale_observation},
      {{"grey", "[@LEAF]", "Shows images of three colours in grey, channels first."}, read_grey},
      {{"resize", "=SIDE|HEIGHTxWIDTH[@LEAF]", "Shows images smaller: means of areas."}, read_resize},
      {{"channels_first", "[@LEAF]", "Shows [height, width, channels] as [channels, height, width]."},
       read_channels_first},
      {{"channels_last", "[@LEAF]", "Shows [channels, height, width] as [height, width, channels]."},
       read_channels_last},
  };
  return all;
}

// "; did you mean 'grey'?", or all names where none is near.
std::string meant_by(const std::string& name) {
  const auto distance = [&](const KnownWrapper& known) { return edit_distance(name, known.info.name); };
  const KnownWrapper& nearest = *std::ranges::min_element(table(), {}, distance);
  const int allowed = std::max(1, static_cast<int>(name.size()) / 3);
  if (distance(nearest) <= allowed) return concat("; did you mean '", nearest.info.name, "'?");
  return concat("; there are ", joined(table(), [](const KnownWrapper& known) { return known.info.name; }));
}

}  // namespace

const std::vector<WrapperInfo>& known_wrappers() {
  static const std::vector<WrapperInfo> all = [] {
    std::vector<WrapperInfo> infos;
    for (const KnownWrapper& known : table()) infos.push_back(known.info);
    return infos;
  }();
  return all;
}

EnvWrapper read_wrapper(const std::string& text) {
  const WrapperText parts(text);
  for (const KnownWrapper& known : table()) {
    if (known.info.name == parts.name()) return known.read(parts);
  }
  parts.fail(concat("there is no wrapper '", parts.name(), "'", meant_by(parts.name())));
}

WrapperChain::WrapperChain(const Spec& inner, const std::vector<std::string>& texts)
    : inner_spec_(inner), spec_(inner) {
  std::vector<std::string> faults;
  for (const std::string& text : texts) {
    try {
      wrappers_.push_back(read_wrapper(text));
      if (wrappers_.back().needs_rows && first_by_row_.empty()) first_by_row_ = text;
    } catch (const ConfigError& error) {
      faults.emplace_back(error.what());
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      const EnvWrapper& wrapper = wrappers_[i];
      stacks_ = wrapper.stacks_of ? wrapper.stacks_of(spec_, std::move(stacks_)) : FrameStacks();
      spec_ = wrapper.spec_of(spec_);
      check_spec(spec_);
    } catch (const ConfigError& error) {
      throw ConfigError(concat(texts[i], i == 0 ? "" : concat(", behind ", texts[i - 1]), ": ", error.what()));
    }
  }
}

std::unique_ptr<EnvGroup> WrapperChain::make(const MakeEnvGroup& make_inner, int count) const {
  std::unique_ptr<EnvGroup> group = first_by_row_.empty() ? make_inner(count) : group_by_row(make_inner, count);
  for (std::size_t i = 0; i < wrappers_.size(); ++i) group = wrappers_[i].around(std::move(group), i);
  return group;
}

}  // namespace tandem::rl
