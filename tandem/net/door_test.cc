#include "tandem/net/door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tandem/base/testing/message_of.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/concurrency/worker.h"
#include "tandem/net/knocks.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A door that lets callers in, on a thread of its own.
class OpenDoor {
 public:
  explicit OpenDoor(Access access, const std::string& secret = "a secret of this test")
      : door_({.access = access, .local = {}, .port = 0, .secret = secret, .name = "a test"}),
        keeper_("keeper", [this](const std::stop_token& stop) {
          try {
            for (;; ++count_) inside_.push_back(door_.accept({.deadline = Deadline::infinite(), .stop = stop}));
          } catch (const GroupAborted&) {
          }
        }) {}

  [[nodiscard]] const Place& place() const { return door_.place(); }
  // The first so many that are let in; the door is shut then.
  std::vector<int> inside(int count) {
    while (count_ < count) std::this_thread::yield();
    keeper_.request_stop();
    keeper_.join();
    std::vector<int> callers;
    for (const Door::Accepted& each : inside_) callers.push_back(each.caller);
    return callers;
  }

 private:
  Door door_;
  std::vector<Door::Accepted> inside_;
  std::atomic<int> count_ = 0;
  Worker keeper_;  // last
};

// A connection whose maker says nothing.
Descriptor stand_at(const Place& place) {
  return place.local.empty() ? start_to(place.addresses.front(), place.port) : start_locally(place.local);
}

class DoorTest : public ::testing::TestWithParam<Access> {};
INSTANTIATE_TEST_SUITE_P(Accesses, DoorTest,
                         ::testing::Values(Access(Reach::kThisHost), Access(Reach::kEverywhere),
                                           Access(Reach::kEverywhere, Traffic::kEncrypted)),
                         [](const auto& access) {
                           if (access.param.reach == Reach::kThisHost) return "ThisHost";
                           return access.param.traffic == Traffic::kOpen ? "Everywhere" : "Encrypted";
                         });

TEST_P(DoorTest, WhoKnowsTheSecretIsLetInAndSaysWhoItIs) {
  OpenDoor door(GetParam());
  const Stream one = dial(door.place(), "a secret of this test", 7, "a test", within(30s));
  const Stream other = dial(door.place(), "a secret of this test", 8, "a test", within(30s));
  EXPECT_THAT(door.inside(2), ::testing::UnorderedElementsAre(7, 8));
}

TEST_P(DoorTest, NobodyIsLetInWithAnotherSecret) {
  OpenDoor door(GetParam());
  for (const char* secret : {"another secret", ""}) {
    EXPECT_THAT(message_of<OtherSecret>([&] { (void)dial(door.place(), secret, 1, "the test's door", within(30s)); }),
                AllOf(HasSubstr("the test's door"), HasSubstr("another secret")));
  }
  EXPECT_THAT(door.inside(0), ::testing::IsEmpty());
}

// More than may stand there at a time, so that the oldest are turned away.
TEST_P(DoorTest, AThrongThatSaysNothingKeepsNobodyOut) {
  OpenDoor door(GetParam());
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stand_at(door.place()));
  const Stream stream = dial(door.place(), "a secret of this test", 3, "a test", within(4s));
  EXPECT_TRUE(stream.is_open());
}

TEST_P(DoorTest, WhoSpeaksAnotherLanguageIsTurnedAway) {
  OpenDoor door(GetParam());
  const Descriptor socket = stand_at(door.place());
  const std::string words(200, 'x');
  while (::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0) std::this_thread::yield();
  Challenge challenge;
  while (::recv(socket.get(), &challenge, sizeof(challenge), 0) != sizeof(challenge)) std::this_thread::yield();
  char more = 0;
  ssize_t got = -1;
  while ((got = ::recv(socket.get(), &more, 1, 0)) < 0 && errno == EAGAIN) std::this_thread::yield();
  EXPECT_LE(got, 0) << "it was answered";
}

// A door proves itself, too: who listens in its place cannot.
TEST_P(DoorTest, WhoListensInItsPlaceIsNotBelieved) {
  OpenDoor impostor(GetParam(), "");
  EXPECT_THROW((void)dial(impostor.place(), "a secret of this test", 1, "a test", within(30s)), OtherSecret);
}

TEST(LocalDoorTest, AnotherUserIsNotLetInAndNotTalkedTo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  OpenDoor door(Reach::kThisHost);
  const auto as_nobody = [](const auto& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      constexpr uid_t kNobody = 65534;
      if (::setuid(kNobody) != 0) ::_exit(2);
      work();
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const Place place = door.place();
  EXPECT_EQ(as_nobody([&place] {
              try {
                (void)dial(place, "a secret of this test", 1, "a test", within(30s));
                ::_exit(1);
              } catch (const RunError& error) {
                ::_exit(std::string(error.what()).find("of user 0 listens there") == std::string::npos ? 3 : 0);
              }
            }),
            0);
  EXPECT_THAT(door.inside(0), ::testing::IsEmpty());
}

TEST_P(DoorTest, ADoorThatIsShutEndsItsWait) {
  Door door({.access = GetParam(), .local = {}, .port = 0, .secret = "a secret of this test", .name = "a test"});
  const Worker other("other", [&door](const std::stop_token&) { door.shut(); });
  EXPECT_THAT(message_of<GroupAborted>([&] { (void)door.accept(within(30s)); }), HasSubstr("lets nobody in any more"));
  EXPECT_THROW((void)dial(door.place(), "a secret of this test", 1, "a test", within(30s)), RunError);
}

TEST(KnocksTest, AFloodMakesALineNowAndThen) {
  Knocks knocks(1h);
  EXPECT_EQ(knocks.note("the store", "10.0.0.9:4711", "is rude"),
            "tandem: warning: 10.0.0.9:4711 came to the store and was turned away: it is rude\n");
  EXPECT_EQ(knocks.note("the store", "10.0.0.9:4712", "is rude"), "");
  Knocks impatient{Clock::duration{}};
  (void)impatient.note("the store", "a", "b");
  EXPECT_THAT(impatient.note("the store", "c", "d"), HasSubstr("c came to the store"));
}

}  // namespace
}  // namespace tandem::net
