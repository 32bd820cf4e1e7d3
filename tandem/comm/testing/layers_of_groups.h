// comm/testing/layers_of_groups.h: layered groups of threads, for tests.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/comm/layered_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/testing/forwarding_group.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {

using Groups = std::vector<std::unique_ptr<Group>>;

// Runs `work` as each member; what() of every member's exception, or "" for one that returned. As processes do that
// end with an error, a member that threw is gone for the others.
inline std::vector<std::string> run_all(Groups groups, const std::function<void(Group&)>& work) {
  std::vector<std::string> outcomes(groups.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        work(*groups[i]);
      } catch (const std::exception& error) {
        outcomes[i] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

enum class Outer { kOfAll, kOfLeaders, kGoesOnAlone };

// So a member's thread carries its collectives on.
class AloneGroup final : public ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  [[nodiscard]] bool goes_on_alone() const override { return true; }
};

// The members of groups of these sizes under a group of their leaders.
inline Groups layer(std::vector<Groups> inner, Groups leaders, Outer who = Outer::kOfLeaders) {
  std::vector<std::jthread> threads;
  Groups all;
  std::size_t count = 0;
  for (const Groups& part : inner) count += part.size();
  all.resize(count);
  std::size_t next = 0;
  for (std::size_t part = 0; part < inner.size(); ++part) {
    std::shared_ptr<Group> leader = std::move(leaders[part]);
    for (std::unique_ptr<Group>& member : inner[part]) {
      const bool has_outer = member->rank() == 0 || who == Outer::kOfAll;
      threads.emplace_back(
          [&all, place = next++, mine = std::move(member), outer = has_outer ? leader : nullptr]() mutable {
            all[place] = make_layered_group(std::move(mine), std::move(outer), within(std::chrono::minutes(1)));
          });
    }
  }
  threads.clear();
  return all;
}

inline Groups layered(const std::vector<int>& sizes, Outer who = Outer::kOfLeaders) {
  std::vector<Groups> inner;
  for (const int size : sizes) inner.push_back(make_local_group(size));
  Groups leaders = make_local_group(static_cast<int>(sizes.size()));
  if (who == Outer::kGoesOnAlone) {
    for (auto& leader : leaders) leader = std::make_unique<AloneGroup>(std::move(leader));
  }
  return layer(std::move(inner), std::move(leaders), who);
}

// Two hosts of two ranks of two replicas each.
inline Groups three_levels() {
  std::vector<Groups> replicas;
  for (const int count : {2, 2, 2, 2}) replicas.push_back(make_local_group(count));
  return layer(std::move(replicas), layered({2, 2}), Outer::kOfAll);
}

// Does nothing with the group until it is closed.
inline void wait_for_its_end(Group& group) {
  std::stop_source closed;
  const Listening closing = group.on_close([&](const std::string&) { closed.request_stop(); });
  pause(std::chrono::hours(24), {.deadline = Deadline::infinite(), .stop = closed.get_token()});
}

}  // namespace tandem::comm
