#include "tandem/rl/env/python/python_agents.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// Of an agent: a float64, and three bytes that are 0 or 1.
constexpr std::size_t kToldBytes = 11;

bool has_box(const AgentSpec& agent) { return std::holds_alternative<Box>(agent.action); }

// A mask of all agents is one where any of them has one: the others' entries are 1.
bool has_mask(const MultiAgentSpec& spec) {
  return std::ranges::any_of(spec.agents, [](const AgentSpec& agent) { return agent.has_action_mask; });
}

}  // namespace

Spec joint_spec(const MultiAgentSpec& spec) {
  Spec joint{.id = spec.id};
  Box box;
  MultiDiscrete choices;
  for (const AgentSpec& agent : spec.agents) {
    for (Leaf leaf : agent.observation) {
      leaf.name = concat(agent.name, "/", leaf.name);
      joint.observation.push_back(std::move(leaf));
    }
    if (has_box(agent) != has_box(spec.agents.front()))
      throw ConfigError(concat(spec.id, ": agent ", agent.name, " has actions ", describe(agent.action), ", and ",
                               spec.agents.front().name, " ", describe(spec.agents.front().action),
                               "; all agents of an environment in Python take numbers, or all choices"));
    if (const auto* its = std::get_if<Box>(&agent.action)) {
      box.low.insert(box.low.end(), its->low.begin(), its->low.end());
      box.high.insert(box.high.end(), its->high.begin(), its->high.end());
    } else {
      for (const std::int64_t n : choices_of(agent.action)) choices.n.push_back(n);
    }
  }
  joint.observation.push_back({.name = "told",
                               .type = ElementType::kUInt8,
                               .shape = {static_cast<std::int64_t>(spec.agents.size() * kToldBytes)}});
  if (choices.n.empty())
    joint.action = std::move(box);
  else
    joint.action = std::move(choices);
  joint.has_action_mask = has_mask(spec);
  return joint;
}

PythonAgents::PythonAgents(MultiAgentSpec spec, std::unique_ptr<EnvGroup> joint)
    : spec_(std::move(spec)), joint_(std::move(joint)), buffers_(*joint_), in_game_(rows() * spec_.agents.size()) {
  Place place;
  for (const AgentSpec& agent : spec_.agents) {
    places_.push_back(place);
    place.leaf += agent.observation.size();
    place.action += static_cast<std::size_t>(action_elements(agent.action));
    place.mask += static_cast<std::size_t>(mask_elements(agent.action));
  }
  if (has_box(spec_.agents.front()))
    box_.resize(rows() * place.action);
  else
    discrete_.resize(rows() * place.action);
}

PythonAgents::Told PythonAgents::told(const std::vector<std::byte*>& leaves, std::size_t env, std::size_t agent) const {
  const std::byte* const at = leaves.back() + (env * spec_.agents.size() + agent) * kToldBytes;
  Told its;
  std::memcpy(&its.reward, at, sizeof(double));
  its.terminated = std::to_integer<std::uint8_t>(at[8]);
  its.truncated = std::to_integer<std::uint8_t>(at[9]);
  its.acts = std::to_integer<std::uint8_t>(at[10]);
  if (!std::isfinite(its.reward) || std::max({its.terminated, its.truncated, its.acts}) > 1)
    throw EnvError(concat(spec_.id, ": environment ", env, " tells agent ", spec_.agents[agent].name, " a reward of ",
                          its.reward, ", or flags that are neither 0 nor 1"));
  return its;
}

bool PythonAgents::acts(std::size_t env, std::size_t agent) const {
  return in_game_[env * places_.size() + agent] == 1 && told(buffers_.arrays().observation, env, agent).acts == 1;
}

void PythonAgents::write_shown(std::span<const AgentArrays> out) {
  const EnvArrays& all = buffers_.arrays();
  const std::size_t options = buffers_.action_mask().size() / rows();
  for (std::size_t a = 0; a < places_.size(); ++a) {
    const AgentSpec& agent = spec_.agents[a];
    for (std::size_t l = 0; l < agent.observation.size(); ++l)
      std::memcpy(out[a].env.observation[l], all.observation[places_[a].leaf + l],
                  rows() * agent.observation[l].bytes());
    const auto own = static_cast<std::size_t>(mask_elements(agent.action));
    for (std::size_t e = 0; e < rows(); ++e) {
      out[a].acts[e] = acts(e, a) ? 1 : 0;
      if (agent.has_action_mask)
        std::memcpy(out[a].env.action_mask + e * own, all.action_mask + e * options + places_[a].mask, own);
    }
  }
  for (std::size_t e = 0; e < rows(); ++e) {
    if (std::ranges::none_of(out, [e](const AgentArrays& agent) { return agent.acts[e] == 1; }))
      throw EnvError(concat(spec_.id, ": no agent of environment ", e, " would act next"));
  }
}

// An agent's last observation is the one that it sees now, unless another episode of all has begun.
void PythonAgents::write_ends(std::span<const AgentArrays> out) {
  const EnvArrays& all = buffers_.arrays();
  for (std::size_t e = 0; e < rows(); ++e) {
    const bool is_lost = all.truncated[e] == 1, has_ended = is_lost || all.terminated[e] == 1;
    const std::vector<std::byte*>& leaves = has_ended ? all.final_observation : all.observation;
    for (std::size_t a = 0; a < places_.size(); ++a) {
      const EnvArrays& own = out[a].env;
      std::uint8_t& in_game = in_game_[e * places_.size() + a];
      Told its = is_lost ? Told{.truncated = 1} : told(leaves, e, a);
      if (in_game == 0) its = {};
      // Nobody is left in the game when the episode of all has ended, also who was not told so or never came.
      if (has_ended && in_game == 1 && its.terminated == 0) its.truncated = 1;
      own.reward[e] = its.reward;
      own.terminated[e] = its.terminated;
      own.truncated[e] = its.truncated;
      const bool ends = its.terminated == 1 || its.truncated == 1;
      for (std::size_t l = 0; ends && l < own.final_observation.size(); ++l) {
        const std::size_t bytes = spec_.agents[a].observation[l].bytes();
        std::memcpy(own.final_observation[l] + e * bytes, leaves[places_[a].leaf + l] + e * bytes, bytes);
      }
      in_game = has_ended || (in_game == 1 && !ends) ? 1 : 0;
    }
  }
}

void PythonAgents::reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) {
  joint_->reset(seeds, buffers_.arrays());
  std::ranges::fill(in_game_, std::uint8_t{1});
  write_shown(out);
}

// Agents that do not act get the first of their options, or 0, which the worker does not hand on.
void PythonAgents::step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) {
  TANDEM_CHECK(actions.size() == places_.size(), spec_.id, ": actions of ", actions.size(), " agents");
  const std::size_t elements = std::max(box_.size(), discrete_.size()) / rows();
  for (std::size_t a = 0; a < places_.size(); ++a) {
    const auto own = static_cast<std::size_t>(action_elements(spec_.agents[a].action));
    for (std::size_t e = 0; e < rows(); ++e) {
      const bool is_asked = acts(e, a);
      const std::size_t to = e * elements + places_[a].action;
      for (std::size_t i = 0; i < own; ++i) {
        if (box_.empty())
          discrete_[to + i] = is_asked ? actions[a].discrete[e * own + i] : 0;
        else
          box_[to + i] = is_asked ? actions[a].box[e * own + i] : 0.0F;
      }
    }
  }
  joint_->step(box_.empty() ? EnvActions{.discrete = discrete_.data()} : EnvActions{.box = box_.data()},
               buffers_.arrays());
  write_ends(out);
  write_shown(out);
}

std::vector<std::byte> PythonAgents::save() const { throw EnvError(concat(spec_.id, ": its state cannot be saved")); }

void PythonAgents::load(std::span<const std::byte> /*state*/, std::span<const AgentArrays> /*out*/) {
  throw CheckpointError(concat(spec_.id, ": its state cannot be saved, so there is none to load"));
}

}  // namespace tandem::rl
