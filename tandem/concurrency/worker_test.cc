#include "tandem/concurrency/worker.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <string>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/testing/eventually.h"

namespace tandem {
namespace {

// A place to block until a stop request.
struct Room {
  Mutex mutex;
  CondVar never;
  void stay(const std::stop_token& stop) {
    MutexLock lock(mutex);
    never.wait(mutex, stop, [] { return false; });
  }
};

TEST(WorkerTest, CarriesItsNameCutToWhatTheSystemKeeps) {
  std::string name;
  Worker worker("a long name of a worker", [&](const std::stop_token&) {
    std::array<char, 32> text{};
    pthread_getname_np(pthread_self(), text.data(), text.size());
    name = text.data();
  });
  worker.join();
  EXPECT_EQ(name, "a long name of ");
  EXPECT_TRUE(worker.finished());
}

TEST(WorkerTest, JoinRethrowsWhatTheBodyThrew) {
  Worker worker("failing", [](const std::stop_token&) { throw DataError("row 7 is torn"); });
  for (int i = 0; i < 2; ++i) {
    try {
      worker.join();
      FAIL() << "no exception";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "row 7 is torn");
    }
  }
}

TEST(WorkerTest, DestructionStopsAndJoins) {
  Room room;
  bool left = false;
  {
    Worker worker("staying", [&](const std::stop_token& stop) {
      room.stay(stop);
      left = true;
    });
    ASSERT_TRUE(eventually([&] { return room.never.waiters() == 1; }));
    EXPECT_FALSE(worker.finished());
  }
  EXPECT_TRUE(left);
}

TEST(FailuresTest, ReportsTheCauseBeforeItsConsequences) {
  Failures failures;
  failures.rethrow();
  failures.add("replica 1", std::make_exception_ptr(GroupAborted("aborted")));
  EXPECT_THROW(failures.rethrow(), GroupAborted);
  failures.add("replica 0", std::make_exception_ptr(DataError("cause")));
  failures.add("replica 2", std::make_exception_ptr(EnvError("later")));
  EXPECT_THROW(failures.rethrow(), DataError);
  EXPECT_EQ(failures.all().size(), 3u);
  EXPECT_EQ(message_of(std::make_exception_ptr(7)), "an exception that is not a std::exception");
}

}  // namespace
}  // namespace tandem
