#include "tandem/rl/env/check/play.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace tandem::rl {
namespace {

// FNV-1a, over 64 bits.
class Digest {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ begin[i]) * 0x100000001b3;
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

// The component of a Box that lies at `place` of its range, 0 to 1. A side without a bound reaches as far as 1 does.
float component(double low, double high, double place) {
  if (!std::isfinite(low)) low = std::isfinite(high) ? high - 2 : -1;
  if (!std::isfinite(high)) high = low + 2;
  return std::clamp(static_cast<float>(low + place * (high - low)), static_cast<float>(low), static_cast<float>(high));
}

// The option at `place` of those that are allowed. Without a mask, all are.
std::int64_t option(std::int64_t options, const std::uint8_t* mask, double place) {
  std::int64_t allowed = options;
  if (mask != nullptr) allowed = std::count_if(mask, mask + options, [](std::uint8_t may) { return may != 0; });
  std::int64_t left = std::min(static_cast<std::int64_t>(place * static_cast<double>(allowed)), allowed - 1);
  for (std::int64_t o = 0; o < options; ++o) {
    if (mask != nullptr && mask[o] == 0) continue;
    if (left-- == 0) return o;
  }
  return 0;  // of an agent that does not act, whose mask may be empty
}

}  // namespace

Play::Play(std::unique_ptr<MultiAgentGroup> group, const PlayOptions& options)
    : group_(std::move(group)), options_(options) {
  memory_.reserve(spec().agents.size());
  for (const AgentSpec& agent : spec().agents) make_room(agent);
  memory_.front().metrics.resize(environments() * spec().metrics.size());
  arrays_.front().env.metrics = memory_.front().metrics.data();
}

void Play::make_room(const AgentSpec& agent) {
  const std::size_t rows = environments();
  Memory& own = memory_.emplace_back();
  AgentArrays& out = arrays_.emplace_back();
  for (const Leaf& leaf : agent.observation) {
    out.env.observation.push_back(own.observation.emplace_back(rows * leaf.bytes()).data());
    out.env.final_observation.push_back(own.final_observation.emplace_back(rows * leaf.bytes()).data());
  }
  const auto sized = [rows](auto& values, std::int64_t each) {
    values.resize(rows * static_cast<std::size_t>(each));
    return values.data();
  };
  if (agent.has_action_mask) out.env.action_mask = sized(own.mask, mask_elements(agent.action));
  out.env.reward = sized(own.reward, 1);
  out.env.terminated = sized(own.terminated, 1);
  out.env.truncated = sized(own.truncated, 1);
  out.acts = sized(own.acts, 1);
  const std::int64_t elements = action_elements(agent.action);
  actions_.push_back(std::holds_alternative<Box>(agent.action) ? EnvActions{.box = sized(own.box, elements)}
                                                               : EnvActions{.discrete = sized(own.discrete, elements)});
}

void Play::restart_actions() {
  random_ = NumpyGenerator(options_.seed);
  varied_ = NumpyGenerator(~options_.seed);
  // Results of the steps before must not be taken for those of a reset.
  for (Memory& own : memory_) {
    std::ranges::fill(own.reward, 0.0);
    std::ranges::fill(own.metrics, 0.0);
    std::ranges::fill(own.terminated, 0);
    std::ranges::fill(own.truncated, 0);
    for (std::vector<std::byte>& leaf : own.final_observation) std::ranges::fill(leaf, std::byte{0});
  }
}

void Play::reset(std::span<const std::uint64_t> seeds) {
  restart_actions();
  group_->reset(seeds, arrays_);
}

void Play::load(std::span<const std::byte> state) {
  restart_actions();
  group_->load(state, arrays_);
}

void Play::step() {
  for (std::size_t agent = 0; agent < memory_.size(); ++agent) draw(agent);
  group_->step(actions_, arrays_);
}

// Both streams advance in every draw, so that the parts that do not vary are the same in both kinds of play.
double Play::drawn(std::size_t environment, std::size_t agent, std::size_t part) {
  const double usual = random_.random(), other = varied_.random();
  if (options_.end) return *options_.end;
  if (options_.kept && *options_.kept != environment) return other;
  return options_.varied && options_.varied->agent == agent && options_.varied->part == part ? other : usual;
}

void Play::draw(std::size_t agent) {
  const AgentSpec& its = spec().agents[agent];
  Memory& own = memory_[agent];
  const std::uint8_t* mask = arrays_[agent].env.action_mask;
  const auto elements = static_cast<std::size_t>(action_elements(its.action));
  for (std::size_t e = 0; e < environments(); ++e) {
    const std::uint8_t* its_mask =
        mask == nullptr ? nullptr : mask + e * static_cast<std::size_t>(mask_elements(its.action));
    for (std::size_t part = 0; part < elements; ++part) {
      const double place = drawn(e, agent, part);
      if (const auto* box = std::get_if<Box>(&its.action)) {
        own.box[e * elements + part] = component(box->low[part], box->high[part], place);
        continue;
      }
      const auto* several = std::get_if<MultiDiscrete>(&its.action);
      const std::int64_t options = several != nullptr ? several->n[part] : std::get<Discrete>(its.action).n;
      own.discrete[e * elements + part] = option(options, its_mask, place);
      if (its_mask != nullptr) its_mask += options;
    }
  }
}

std::uint64_t Play::digest(std::size_t environment) const {
  Digest digest;
  for (std::size_t agent = 0; agent < memory_.size(); ++agent) {
    const Memory& own = memory_[agent];
    const std::vector<Leaf>& leaves = spec().agents[agent].observation;
    const bool ended = own.terminated[environment] != 0 || own.truncated[environment] != 0;
    // Rows of agents that are out of the game keep what they were given last.
    const bool shown = own.acts[environment] != 0;
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      const std::size_t bytes = leaves[l].bytes();
      if (shown) digest.add(own.observation[l].data() + environment * bytes, bytes);
      if (ended) digest.add(own.final_observation[l].data() + environment * bytes, bytes);
    }
    const std::size_t options = own.mask.size() / environments();
    if (shown) digest.add(own.mask.data() + environment * options, options);
    digest.add(&own.reward[environment], sizeof(double));
    digest.add(&own.terminated[environment], 1);
    digest.add(&own.truncated[environment], 1);
    digest.add(&own.acts[environment], 1);
    const std::size_t metrics = own.metrics.size() / environments();
    digest.add(own.metrics.data() + environment * metrics, metrics * sizeof(double));
  }
  return digest.value();
}

}  // namespace tandem::rl
