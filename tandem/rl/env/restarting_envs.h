// rl/env/restarting_envs.h: a group whose environments are made anew when they fail, instead of ending the run.
//
// An environment that throws, or returns what its spec does not allow, is destroyed and made again, with a new episode.
// What it was asked for last counts as cut short: reward 0, truncated, and the last observation that was seen is the
// episode's last. Seeds of new episodes follow from the environment's seed and how often it failed, so equal failures
// give equal runs. An environment that hangs does not return and is no such failure.
//
// Threads: single-thread, as every EnvGroup; a RestartBudget: all. Making an environment must be possible on the thread
// that steps the group.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// How often environments may fail, of all groups that share it.
class RestartBudget {
 public:
  explicit RestartBudget(std::int64_t limit) : limit_(limit) {}

  /// One failure more, which `what` tells. False when there have been `limit` already.
  [[nodiscard]] bool take(const std::string& what);
  [[nodiscard]] std::int64_t limit() const { return limit_; }
  [[nodiscard]] std::int64_t used() const;
  /// A sentence for each failure since the last call.
  [[nodiscard]] std::vector<std::string> take_remarks();

 private:
  const std::int64_t limit_;
  mutable Mutex mutex_;
  std::int64_t used_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> remarks_ TANDEM_GUARDED_BY(mutex_);
};

class RestartingEnvs final : public EnvGroup {
 public:
  /// Makes a group of so many environments.
  using Make = std::function<std::unique_ptr<EnvGroup>(int count)>;

  /// `count` environments, in groups of one. Throws ConfigError when count < 1, and what `make` throws.
  RestartingEnvs(Make make, int count, std::shared_ptr<RestartBudget> budget);

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return static_cast<int>(envs_.size()); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override;
  /// Throws EnvError with the failure when the budget is used up, and for actions outside their space.
  void step(const EnvActions& actions, const EnvArrays& out) override;
  [[nodiscard]] bool can_save() const override { return envs_.front().group->can_save(); }
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state, const EnvArrays& out) override;

 private:
  struct One {
    std::unique_ptr<EnvGroup> group;
    std::uint64_t seed = 0;
    std::uint64_t failures = 0;
    std::vector<std::vector<std::byte>> seen = {};  // per leaf: the last observation of it
  };
  static constexpr std::uint32_t kStateFormat = 1;

  // The part of the arrays that belongs to environment e; valid until the next call.
  const EnvArrays& part(std::size_t e, const EnvArrays& all);
  [[nodiscard]] EnvActions part(std::size_t e, const EnvActions& all) const;
  void remember(std::size_t e, const EnvArrays& part);
  void restart(std::size_t e, const EnvArrays& part, std::string what);
  void end_episode(const One& env, const EnvArrays& part) const;

  const Make make_;
  const std::shared_ptr<RestartBudget> budget_;
  std::vector<One> envs_;
  const Spec spec_;
  EnvArrays part_;
};

}  // namespace tandem::rl
