// What `tandem train --profile` leaves behind, and that nothing else is different.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

Command with_profile(Command training) {
  training.arguments.emplace_back("--profile");
  return training;
}

// Names of the spans of each thread, by the thread's name.
std::map<std::string, std::set<std::string>> spans_in(const std::filesystem::path& folder) {
  std::map<std::int64_t, std::string> threads;
  std::map<std::string, std::set<std::string>> spans;
  const JsonValue trace = read_json_file(folder / "trace.json");
  for (const JsonValue& event : trace.at("traceEvents").as_array()) {
    const std::int64_t thread = event.at("tid").as_int64();
    if (event.at("ph").as_string() == "M") {
      threads[thread] = event.at("args").at("name").as_string();
    } else {
      EXPECT_GE(event.at("ts").as_double(), 0);
      EXPECT_GE(event.at("dur").as_double(), 0);
      spans[threads.at(thread)].insert(event.at("name").as_string());
    }
  }
  return spans;
}

TEST(ProfileTest, HasThePhasesOfEachReplicaAndChangesNoNumber) {
  const TemporaryFolder scratch;
  expect_success(train(cartpole(), scratch / "without", "cpu:2"));
  expect_success(with_profile(train(cartpole(), scratch / "with", "cpu:2")));
  EXPECT_EQ(state_of(scratch / "with"), state_of(scratch / "without"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "without" / "trace.json"));

  const auto spans = spans_in(scratch / "with");
  for (const char* phase : {"begin", "update", "record", "checkpoint", "end"})
    EXPECT_THAT(spans, Contains(Pair("tandem", Contains(phase))));
  for (const char* replica : {"replica 0", "replica 1"}) {
    for (const char* phase : {"rollout", "act", "step environments", "gae", "load", "shuffle", "loss and gradients",
                              "sync", "sum statistics", "advantage moments", "add gradients", "norm", "optimizer"}) {
      EXPECT_THAT(spans, Contains(Pair(replica, Contains(phase))));
    }
  }
  EXPECT_THAT(read_file(scratch / "with" / "profile.txt"), HasSubstr("rollout"));
}

TEST(ProfileTest, WithoutFusedKernelsTheirPhasesAreThoseOfAutograd) {
  const TemporaryFolder scratch;
  Command command = with_profile(train(cartpole(), scratch / "run", "cpu:2"));
  command.arguments.insert(command.arguments.end(), {"--set", "ppo.kernel=off"});
  expect_success(command);
  const auto spans = spans_in(scratch / "run");
  for (const char* phase : {"take minibatch", "loss", "backward"})
    EXPECT_THAT(spans, Contains(Pair("replica 1", Contains(phase))));
}

class PipelineProfileTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PipelineProfileTest, HasItsStagesAndWhoWaits) {
  const TemporaryFolder scratch;
  expect_success(with_profile(tandem({"train", "--algo", GetParam(), "--env", "CartPole-v1", "--total-steps", "8192",
                                      "--quiet", "--run-dir", (scratch / "run").string()})));
  const auto spans = spans_in(scratch / "run");
  EXPECT_THAT(spans, Contains(Pair("rollout 0", Contains("rollout"))));
  EXPECT_THAT(spans, Contains(Pair("loader 0", Contains("load"))));
  for (const char* phase : {"learn", "wait for batch"}) EXPECT_THAT(spans, Contains(Pair("learner", Contains(phase))));
  for (const char* phase : {"load", "loss and gradients", "norm", "optimizer"})
    EXPECT_THAT(spans, Contains(Pair("replica 0", Contains(phase))));
}

INSTANTIATE_TEST_SUITE_P(Of, PipelineProfileTest, ::testing::Values("impala", "appo"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(ProfileTest, OfSeveralRanksIsThatOfTheFirst) {
  const TemporaryFolder scratch;
  expect_success(with_profile(tandem({"train", "--algo", "dd_ppo", "--env", "CartPole-v1", "--ranks", "2",
                                      "--total-steps", "2000", "--quiet", "--run-dir", (scratch / "run").string()})));
  const auto spans = spans_in(scratch / "run");
  for (const char* phase : {"rollout", "loss and gradients", "sync", "optimizer"})
    EXPECT_THAT(spans, Contains(Pair("replica 0", Contains(phase))));
  EXPECT_THAT(spans, ::testing::Not(Contains(Pair("replica 1", ::testing::_))));
}

TEST(ProfileTest, OfSeveralAgentsHasWhatTheirPoliciesLearn) {
  const TemporaryFolder scratch;
  expect_success(with_profile(tandem({"train", "--env", "KuhnPoker-v0", "--shards", "2", "--devices", "cpu:2",
                                      "--total-steps", "8192", "--quiet", "--run-dir", (scratch / "run").string()})));
  const auto spans = spans_in(scratch / "run");
  // Each policy has threads of its own; those of the first sample for all.
  for (const char* thread : {"player_0 0", "player_0 1"}) {
    for (const char* phase : {"rollout", "act", "step environments"})
      EXPECT_THAT(spans, Contains(Pair(thread, Contains(phase))));
  }
  for (const char* thread : {"player_0 0", "player_0 1", "player_1 0", "player_1 1"}) {
    for (const char* phase : {"shuffle", "loss and gradients", "optimizer"})
      EXPECT_THAT(spans, Contains(Pair(thread, Contains(phase))));
  }
}

}  // namespace
}  // namespace tandem::process_test
