#include "tandem/rl/rollout/step_watch.h"

#include <utility>

#include "tandem/base/text.h"

namespace tandem::rl {

StepWatch::StepWatch(std::vector<Group> groups, Clock::duration limit, std::string option)
    : groups_(std::move(groups)), limit_(limit), option_(std::move(option)), seen_(groups_.size()) {}

std::string StepWatch::look() {
  const Clock::time_point now = Clock::now();
  std::string late;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::uint64_t count = groups_[i].mark->count();
    Seen& seen = seen_[i];
    // A new count means another step, or none: the time begins anew.
    if (seen.count != count) seen = {.count = count, .since = now};
    const bool inside = count % 2 == 1;
    if (!inside || now - seen.since < limit_) continue;
    late += concat(late.empty() ? "" : ", ", groups_[i].name, " for ",
                   std::chrono::duration<double>(now - seen.since).count(), " s");
  }
  if (late.empty()) return late;
  return concat("in one step: ", late, ", and ", std::chrono::duration<double>(limit_).count(), " s are allowed (",
                option_, "). An environment may hang, or be slower than that");
}

std::string name_of_group(const std::string& env, int group, int envs) {
  const int first = group * envs;
  return concat("env group ", group, " (", env, ", environment", envs > 1 ? "s " : " ", first,
                envs > 1 ? concat(" to ", first + envs - 1) : "", ")");
}

}  // namespace tandem::rl
