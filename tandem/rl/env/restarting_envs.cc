#include "tandem/rl/env/restarting_envs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/row_arrays.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {

bool RestartBudget::take(const std::string& what) {
  MutexLock lock(mutex_);
  if (used_ >= limit_) return false;
  ++used_;
  remarks_.push_back(concat("an environment failed and is made anew (", used_, " of ", limit_, " times): ", what));
  return true;
}

std::int64_t RestartBudget::used() const {
  MutexLock lock(mutex_);
  return used_;
}

std::vector<std::string> RestartBudget::take_remarks() {
  MutexLock lock(mutex_);
  return std::exchange(remarks_, {});
}

std::uint64_t EnvOrigin::start_seed() const {
  return failures == 0 ? seed : derive_seed(seed, SeedPurpose::kEnvGroup, failures);
}

std::string no_restart_is_left(const std::string& what, std::int64_t limit) {
  return concat(what, "; environments have failed ", limit, " times before, which is all that env_restarts allows");
}

RestartingEnvs::RestartingEnvs(Make make, int count, std::shared_ptr<RestartBudget> budget)
    : make_(std::move(make)),
      budget_(std::move(budget)),
      // Groups are made one by one in the list of members, because spec_ is asked of the first.
      envs_([&] {
        if (count < 1) throw ConfigError(concat("a group of ", count, " environments; it needs at least 1"));
        std::vector<One> envs;
        for (int e = 0; e < count; ++e) envs.push_back({.group = make_(1)});
        return envs;
      }()),
      spec_(envs_.front().group->spec()) {
  for (One& env : envs_) {
    for (const Leaf& leaf : spec_.observation) env.seen.emplace_back(leaf.bytes());
  }
}

// The arrays are kept in a member so that their vectors take no memory in a step.
const EnvArrays& RestartingEnvs::part(std::size_t e, const EnvArrays& all) {
  row_of(spec_, e, all, part_);
  return part_;
}

EnvActions RestartingEnvs::part(std::size_t e, const EnvActions& all) const { return row_of(spec_, e, all); }

void RestartingEnvs::remember(std::size_t e, const EnvArrays& part) {
  std::vector<std::vector<std::byte>>& seen = envs_[e].seen;
  for (std::size_t l = 0; l < seen.size(); ++l) std::memcpy(seen[l].data(), part.observation[l], seen[l].size());
}

void RestartingEnvs::reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) {
  std::vector<EnvOrigin> origins;
  for (const std::uint64_t seed : seeds) origins.push_back({.seed = seed});
  reset_from(origins, out);
}

void RestartingEnvs::reset_from(std::span<const EnvOrigin> origins, const EnvArrays& out) {
  TANDEM_CHECK(origins.size() == envs_.size(), spec_.id, ": ", origins.size(), " seeds for ", envs_.size());
  for (std::size_t e = 0; e < envs_.size(); ++e) {
    const EnvArrays& own = part(e, out);
    envs_[e].origin = origins[e];
    const std::uint64_t seed = origins[e].start_seed();
    try {
      envs_[e].group->reset(std::span(&seed, 1), own);
    } catch (const EnvError& error) {
      restart(e, own, error.what());
    }
    remember(e, own);
  }
}

// Actions are checked for all environments first: a bad action is the caller's fault and must not cost a restart.
void RestartingEnvs::step(const EnvActions& actions, const EnvArrays& out) {
  check_actions(spec_, envs_.size(), actions);
  for (std::size_t e = 0; e < envs_.size(); ++e) {
    // A failure is found after the environment may have written to its rows; restart() and end_episode() overwrite
    // them.
    const EnvArrays& own = part(e, out);
    try {
      envs_[e].group->step(part(e, actions), own);
    } catch (const EnvError& error) {
      restart(e, own, error.what());
      end_episode(envs_[e], own);
    }
    remember(e, own);
  }
}

// Makes the environment again until one begins an episode. Each try takes one failure from the budget, and has a seed
// of its own, which follows from the environment's seed and the number of its failures.
void RestartingEnvs::restart(std::size_t e, const EnvArrays& part, std::string what) {
  One& env = envs_[e];
  for (;;) {
    what.insert(0, concat("environment ", e, " of ", envs_.size(), " of a group: "));
    if (!budget_->take(what)) throw EnvError(no_restart_is_left(what, budget_->limit()));
    ++env.origin.failures;
    try {
      // The failed environment is destroyed after its successor exists.
      env.group = make_(1);
      env.group->set_progress(progress_);
      const std::uint64_t seed = env.origin.start_seed();
      env.group->reset(std::span(&seed, 1), part);
      return;
    } catch (const EnvError& error) {
      what = error.what();
    }
  }
}

void RestartingEnvs::end_episode(const One& env, const EnvArrays& part) const {
  *part.reward = 0;
  *part.terminated = 0;
  *part.truncated = 1;
  // The environment that could tell them is gone.
  if (part.metrics != nullptr)
    std::fill_n(part.metrics, spec_.metrics.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t l = 0; l < part.final_observation.size(); ++l)
    std::memcpy(part.final_observation[l], env.seen[l].data(), env.seen[l].size());
}

// Seeds and numbers of failures are saved, so that later restarts have the seeds that they would have had.
std::vector<std::byte> RestartingEnvs::save() const {
  StateWriter writer;
  writer.put(kStateFormat);
  writer.put(std::uint64_t{envs_.size()});
  for (const One& env : envs_) {
    writer.put(env.origin.seed);
    writer.put(env.origin.failures);
    writer.put_bytes(env.group->save());
  }
  return writer.take();
}

void RestartingEnvs::load(std::span<const std::byte> state, const EnvArrays& out) {
  StateReader reader(state, concat("restarting environments '", spec_.id, "'"));
  reader.expect(kStateFormat, "its format");
  reader.expect(std::uint64_t{envs_.size()}, "its number of environments");
  for (std::size_t e = 0; e < envs_.size(); ++e) {
    envs_[e].origin.seed = reader.get<std::uint64_t>();
    envs_[e].origin.failures = reader.get<std::uint64_t>();
    const EnvArrays& own = part(e, out);
    envs_[e].group->load(reader.get_bytes(), own);
    remember(e, own);
  }
  reader.expect_end();
}

// By the layout of save(), whose lengths must lead exactly to the end: states of other groups have no tag of their own.
bool is_of_its_kind(const EnvGroup& group, std::span<const std::byte> state) {
  const auto is_of_restarting = [&] {
    StateReader reader(state, "environments");
    if (reader.get<std::uint32_t>() != RestartingEnvs::kStateFormat) return false;
    if (reader.get<std::uint64_t>() != static_cast<std::uint64_t>(group.size())) return false;
    for (int env = 0; env < group.size(); ++env) {
      (void)reader.get<EnvOrigin>();
      (void)reader.get_bytes();
    }
    reader.expect_end();
    return true;
  };
  try {
    return is_of_restarting() == group.restarts();
  } catch (const CheckpointError&) {  // another layout
    return !group.restarts();
  }
}

}  // namespace tandem::rl
