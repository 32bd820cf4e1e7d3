// Episodes are dealt out to at most 32 environments in rounds. Each environment plays one episode a round and waits for
// the longest: if whoever is done first took the next episode, short episodes would be counted too often. An
// environment of one agent is evaluated as one of several, with one policy that has no name.
#include "tandem/app/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tandem/app/config/policy_keys.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/camera.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/rounding.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/policy/actor/actor.h"

namespace tandem::app {
namespace {

constexpr std::int64_t kMostAtOnce = 32;  // environments

// Noise that an evaluation draws lasts as long as in training.
rl::ActorOptions acting_as(const TrainOptions& options, const EvaluationOptions& how) {
  return {.acting = how.acting, .noise_hold_steps = static_cast<int>(options.policy.sde_sample_freq)};
}

// A checkpoint keeps one flat list of tensors; these two prefixes mark what only training needs.
model::NamedTensors model_part(model::NamedTensors state) {
  std::erase_if(state, [](const auto& tensor) {
    return tensor.first.starts_with("optimizer.") || tensor.first.starts_with("averages.");
  });
  return state;
}

// A run with several agents that normalises nothing has no normalisers in its checkpoints.
TrainedPolicy load(const learner::ReadPart& read_part, const TrainOptions& options, const rl::MappedPolicy& policy) {
  const rl::PolicyNames names(policy.name);
  const PolicySettings settings = settings_of_policy(options, policy.name);
  TrainedPolicy trained{.policy = policy_factory(options, settings)(policy.spec, at::detail::createCPUGenerator(0)),
                        .normalizers = rl::Normalizers(policy.spec, options.normalize.options())};
  model::copy_named(model_part(read_part(names.part)), model::named_state_of(*trained.policy));
  if (trained.normalizers.options().any()) trained.normalizers.load(read_part(names.normalizers));
  trained.policy->eval();
  return trained;
}

// One policy and what its agents see and do.
struct Seat {
  std::string name;
  TrainedPolicy trained;
  std::vector<std::size_t> agents;
  rl::AgentRows now;
  std::unique_ptr<rl::Actor> actor;
};

// One episode an environment at a time: each environment plays a fixed share of the episodes, so that short ones are
// not favoured.
class Player {
 public:
  Player(std::vector<Seat> seats, const rl::EnvRegistry& environments, const std::string& env, int envs,
         const EvaluationOptions& how)
      : seats_(std::move(seats)), how_(how) {
    if (const rl::MultiAgentEntry* entry = environments.find_multi_agent(env)) {
      several_ = entry->make(envs);
    } else {
      one_ = environments.make(env, envs);
    }
    arrays_.resize(several_ ? several_->spec().agents.size() : 1);
    actions_.resize(arrays_.size());
    // Arrays are by agent of the environment; a seat's rows hold its agents one after the other, so each agent's arrays
    // point into them.
    for (Seat& seat : seats_) {
      for (std::size_t k = 0; k < seat.agents.size(); ++k) arrays_[seat.agents[k]] = seat.now.arrays_of(k);
    }
    if (how_.shown.episodes > 0) camera_.emplace(one_.get(), several_.get(), how_.shown);
    metrics_.resize(static_cast<std::size_t>(envs) * metrics().size());
    arrays_.front().env.metrics = metrics_.data();
  }

  // Those of the environment's spec.
  [[nodiscard]] const std::vector<rl::Metric>& metrics() const {
    return several_ ? several_->spec().metrics : one_->spec().metrics;
  }

  // Plays one episode in each of the first `count` environments and appends the results. All environments step until
  // the last of these has ended, or no more steps are to be made; what an agent does after its end is not counted.
  void play(std::span<const std::uint64_t> seeds, std::size_t count, Evaluation& into) {
    if (one_) one_->set_progress(how_.progress);
    if (several_) several_->set_progress(how_.progress);
    if (one_) one_->reset(seeds, arrays_.front().env);
    if (several_) several_->reset(seeds, arrays_);
    for (Seat& seat : seats_) {
      seat.actor->refresh();
      seat.actor->episodes_ended(std::vector<std::uint8_t>(seat.now.rows(), 1));  // nothing is left of episodes before
    }
    std::vector<Episodes> played(
        arrays_.size(), {.returns = std::vector<double>(count, 0.0), .lengths = std::vector<std::int64_t>(count, 0)});
    std::vector<std::vector<std::uint8_t>> finished(arrays_.size(), std::vector<std::uint8_t>(count, 0));
    const auto before = static_cast<std::int64_t>(into.whole.returns.size());
    std::size_t left = arrays_.size() * count;
    if (camera_) camera_->begin(before, count);
    // By metric and environment, of the episodes that have ended.
    std::vector<std::vector<std::optional<double>>> measured(metrics().size());
    for (std::vector<std::optional<double>>& its : measured) its.resize(count);
    std::vector<std::size_t> in_game(count, arrays_.size());
    for (std::int64_t made = 0; left > 0 && made < how_.most_steps; ++made) {
      step();
      if (camera_) camera_->after_step(arrays_);
      steps_ += static_cast<std::int64_t>(count);
      for (std::size_t agent = 0; agent < arrays_.size(); ++agent) {
        for (std::size_t env = 0; env < count; ++env) {
          if (finished[agent][env] != 0) continue;  // it waits for the others, or plays the next episode
          const rl::EnvArrays& its = arrays_[agent].env;
          played[agent].returns[env] += its.reward[env];
          ++played[agent].lengths[env];
          finished[agent][env] = its.terminated[env] | its.truncated[env];
          left -= finished[agent][env];
          in_game[env] -= finished[agent][env];
          if (in_game[env] == 0) measure(env, measured);
        }
      }
      how_.on_step(before + static_cast<std::int64_t>(count - (left + arrays_.size() - 1) / arrays_.size()), steps_);
    }
    take(played, finished, into);
    for (std::size_t metric = 0; metric < measured.size(); ++metric) {
      for (const std::optional<double>& value : measured[metric]) {
        if (value) into.metrics[metric].values.push_back(*value);
      }
    }
  }

 private:
  // All policies act on the same moment before the environments step, as they did in training.
  void step() {
    for (Seat& seat : seats_) {
      rl::AgentRows& now = seat.now;
      now.show(&seat.trained.normalizers);
      now.act(*seat.actor);
      now.to_bounds();
      if (how_.on_decisions) how_.on_decisions(seat.name, now);
      for (std::size_t k = 0; k < seat.agents.size(); ++k) actions_[seat.agents[k]] = now.actions_of(k);
    }
    const KeptRounding kept;
    if (one_) one_->step(actions_.front(), arrays_.front().env);
    if (several_) several_->step(actions_, arrays_);
  }

  // Of the episode of environment `env` that has ended with this step; a NaN is not known.
  void measure(std::size_t env, std::vector<std::vector<std::optional<double>>>& measured) const {
    for (std::size_t metric = 0; metric < measured.size(); ++metric) {
      const double value = metrics_[env * measured.size() + metric];
      if (!std::isnan(value)) measured[metric][env] = value;
    }
  }

  // Appends the round's episodes: for each agent, and for the whole the sum of returns and the longest length.
  static void take(const std::vector<Episodes>& played, const std::vector<std::vector<std::uint8_t>>& finished,
                   Evaluation& into) {
    for (std::size_t env = 0; env < finished.front().size(); ++env) {
      double sum = 0;
      std::int64_t length = 0;
      bool is_whole = true;
      for (std::size_t agent = 0; agent < played.size(); ++agent) {
        Episodes& its = into.agents[agent].played;
        if (finished[agent][env] == 0) {
          ++its.cut_short;
          is_whole = false;
        }
        sum += its.returns.emplace_back(played[agent].returns[env]);
        length = std::max(length, its.lengths.emplace_back(played[agent].lengths[env]));
      }
      into.whole.returns.push_back(sum);
      into.whole.lengths.push_back(length);
      into.whole.cut_short += is_whole ? 0 : 1;
    }
  }

  std::vector<Seat> seats_;
  const EvaluationOptions& how_;
  std::int64_t steps_ = 0;             // of all environments, over all rounds
  std::unique_ptr<rl::EnvGroup> one_;  // or several_: the environment has one agent or several
  std::unique_ptr<rl::MultiAgentGroup> several_;
  std::optional<Camera> camera_;         // where episodes are shown
  std::vector<rl::AgentArrays> arrays_;  // by agent of the environment
  std::vector<rl::EnvActions> actions_;  // likewise
  std::vector<double> metrics_;          // [environments, metrics], of episodes that ended
};

}  // namespace

rl::PolicyMap policies_of(const TrainOptions& options, const rl::EnvRegistry& environments) {
  if (const rl::MultiAgentEntry* entry = environments.find_multi_agent(options.env))
    return policy_map_of(options, *entry);
  return {{.name = "", .agents = {0}, .spec = environments.spec(options.env)}};
}

TrainedPolicy load_policy(const model::Checkpoint& checkpoint, const TrainOptions& options,
                          const rl::EnvRegistry& environments, const std::string& name) {
  const rl::PolicyMap map = policies_of(options, environments);
  const auto found =
      // A run with one policy needs no name.
      name.empty() && map.size() == 1 ? map.begin() : std::ranges::find(map, name, &rl::MappedPolicy::name);
  if (found != map.end()) return load(parts_of(checkpoint), options, *found);
  if (map.front().name.empty())
    throw ConfigError(concat("--policy ", name, ": ", options.env, " has one agent, and one policy"));
  throw ConfigError(concat(name.empty() ? "the run has several policies; say which with --policy"
                                        : concat("--policy ", name, ": the run has no such policy"),
                           "; there are ", joined(map, &rl::MappedPolicy::name)));
}

learner::ReadPart parts_of(const model::Checkpoint& checkpoint) {
  return [&checkpoint](const std::string& name) { return checkpoint.read_part(name).tensors; };
}

Evaluation evaluate(const learner::ReadPart& read_part, const TrainOptions& options,
                    const rl::EnvRegistry& environments, const EvaluationOptions& how) {
  if (how.episodes < 1) throw ConfigError(concat("episodes is ", how.episodes, "; it must be at least 1"));
  if (how.most_steps < 1) throw ConfigError(concat("most_steps is ", how.most_steps, "; it must be at least 1"));
  const std::int64_t envs = std::min(kMostAtOnce, how.episodes);  // more than episodes would play for nothing
  Evaluation result{.agents = std::vector<AgentEvaluation>(1)};
  const rl::MultiAgentEntry* entry = environments.find_multi_agent(options.env);
  if (entry != nullptr) result.agents.resize(entry->spec.agents.size());
  std::vector<Seat> seats;
  for (const rl::MappedPolicy& policy : policies_of(options, environments)) {
    for (const std::size_t agent : policy.agents) result.agents[agent].policy = policy.name;
    TrainedPolicy trained = load(read_part, options, policy);
    std::unique_ptr<rl::Actor> actor =
        rl::make_actor(*trained.policy, acting_as(options, how), std::ssize(policy.agents) * envs, how.seed,
                       static_cast<int>(seats.size()));
    const at::Tensor state = actor->state();
    rl::AgentRows now(policy.spec, policy.agents.size(), static_cast<std::size_t>(envs),
                      options.normalize.options().observations, state.defined() ? state.size(1) : 0);
    // The group of an environment with one agent does not say that it acts.
    if (entry == nullptr) std::ranges::fill(now.acts, std::uint8_t{1});
    seats.push_back({.name = policy.name,
                     .trained = std::move(trained),
                     .agents = policy.agents,
                     .now = std::move(now),
                     .actor = std::move(actor)});
  }
  Player player(std::move(seats), environments, options.env, static_cast<int>(envs), how);
  for (const rl::Metric& metric : player.metrics()) result.metrics.push_back({.name = metric.name, .values = {}});
  for (std::int64_t first = 0; first < how.episodes; first += envs) {
    std::vector<std::uint64_t> seeds;
    // The last round draws seeds for rows that do not count, since a reset takes one for every environment.
    for (std::int64_t env = 0; env < envs; ++env)
      seeds.push_back(derive_seed(how.seed, SeedPurpose::kEvaluation, static_cast<std::uint64_t>(first + env)));
    player.play(seeds, static_cast<std::size_t>(std::min(envs, how.episodes - first)), result);
  }
  if (entry == nullptr) result.agents.clear();
  for (std::size_t agent = 0; agent < result.agents.size(); ++agent)
    result.agents[agent].agent = entry->spec.agents[agent].name;
  return result;
}

}  // namespace tandem::app
