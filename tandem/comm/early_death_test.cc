// A rank that ended before all had met, of which the launcher knows (store/obituary.h): nobody waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/comm/store/obituary.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/comm/testing/store_process.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

LauncherEnvironment one_of_two(int rank, const StoreProcess& launcher) {
  return {.launcher = Launcher::kVariables,
          .rank = rank,
          .world_size = 2,
          .host_name = concat("machine-", rank),
          .master = {.address = "127.0.0.1", .port = launcher.port()},
          .launcher_hosts_store = true};
}

WorldOptions over_tcp() {
  WorldOptions options;
  options.backend = Backend::kTcp;
  options.limits = within(60s);
  return options;
}

TEST(EarlyDeathTest, ARankThatEndedBeforeItCameIsNotWaitedFor) {
  const StoreProcess launcher;
  const std::unique_ptr<Store> store = open_store(one_of_two(0, launcher), 0, within(60s));
  write_obituary(*store, 1, "SIGKILL");
  EXPECT_THAT([&] { (void)open_world(one_of_two(0, launcher), over_tcp()); },
              ThrowsMessage<PeerLost>(HasSubstr("rank 1 of 2 ended (SIGKILL) before it had met the others")));
  write_obituary(*store, 0, "SIGKILL");
  EXPECT_FALSE(obituary_in(store->get("world/0", within(60s)))) << "it has come";
}

// It brought its introduction, and died before it came to the group's meeting.
TEST(EarlyDeathTest, ARankThatEndedBeforeTheMeetingIsNotWaitedFor) {
  const StoreProcess launcher;
  struct Death {};  // no exception that the world would report
  NetworkGroups none;
  none.tcp = [](const NetworkGroupOptions&) -> std::unique_ptr<Group> {
    throw Death();  // NOLINT(bugprone-std-exception-baseclass): see above
  };
  const std::jthread other([&] {
    const LauncherEnvironment second = one_of_two(1, launcher);
    try {
      (void)open_world(second, over_tcp(), none);
    } catch (const Death&) {
      write_obituary(*open_store(second, 0, within(60s)), 1, "SIGKILL");
    }
  });
  EXPECT_THAT([&] { (void)open_world(one_of_two(0, launcher), over_tcp()); },
              ThrowsMessage<PeerLost>(HasSubstr("rank 1 failed while the ranks met: it ended (SIGKILL)")));
}

}  // namespace
}  // namespace tandem::comm
