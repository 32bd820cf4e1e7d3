// DD-PPO as its users start it: the same numbers on any topology, and what is refused before any process starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// With all that changes from update to update.
Recipe changing() {
  return with_setting(with_setting(dd_ppo(), "ppo.learning_rate_schedule=constant"), "ppo.entropy_coef=0.01");
}

double sum_of_metric(const std::filesystem::path& run, const std::string& key) {
  double sum = 0;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) sum += read_json(line).at(key).as_double();
  return sum;
}

Command with_ranks(int ranks, Command command) {
  command.arguments.insert(command.arguments.end(), {"--ranks", std::to_string(ranks)});
  return command;
}

std::string name_of(const Topology& topology) { return std::to_string(topology.ranks) + topology.devices; }

void expect_same_bits_on_any_ranks(const Recipe& recipe) {
  const TemporaryFolder scratch;
  expect_success(train(recipe, scratch / "1", "cpu:4"));
  const std::string expected = state_of(scratch / "1");
  for (const Topology& topology : {Topology{2, "cpu:2"}, Topology{4, "cpu"}}) {
    const auto folder = scratch / name_of(topology);
    expect_success(with_ranks(topology.ranks, train(recipe, folder, topology.devices)));
    EXPECT_EQ(state_of(folder), expected) << topology.ranks << " ranks";
    EXPECT_EQ(summary_of(folder).at("env_steps").as_int64(), recipe.steps);
    EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), 4u);
  }
}

TEST(DdPpoTest, TheSameShardsHaveTheSameStateOnAnyRanks) {
  expect_same_bits_on_any_ranks(with_setting(changing(), "ppo.entropy_coef_schedule=linear"));
}

TEST(DdPpoTest, ARecurrentPolicyHasTheSameStateOnAnyRanks) {
  expect_same_bits_on_any_ranks(
      with_setting(with_setting(with_steps(changing(), 2000), "policy.recurrent=lstm"), "policy.max_seq_len=10"));
}

TEST(LongDdPpoTest, TheSameShardsHaveTheSameStateAfter100kSteps) {
  expect_same_bits_on_any_ranks(with_steps(changing(), 100'000));
}

// Half of it on two ranks, the rest on two others with two replicas each: the adapted penalty, too, goes on where it
// was.
TEST(DdPpoTest, ARunGoesOnExactlyOnOtherRanks) {
  const TemporaryFolder scratch;
  expect_success(train(changing(), scratch / "whole", "cpu"));
  const auto folder = scratch / "parts";
  expect_success(with_ranks(2, train(with_steps(changing(), 2000), folder, "cpu")));
  Command more = resume(folder, "cpu:2");
  more.arguments.insert(more.arguments.end(), {"--total-steps", "4000"});
  expect_success(with_ranks(2, more));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(folder), state_of(scratch / "whole"));
}

// Fragments then differ in length from shard to shard, and how many steps an update makes is known afterwards only.
TEST(DdPpoTest, CompleteEpisodesGiveTheSameBitsOnAnyRanksAndAfterAResume) {
  const TemporaryFolder scratch;
  const Recipe recipe = with_setting(changing(), "ppo.batch_mode=complete_episodes");
  expect_success(train(recipe, scratch / "1", "cpu:4"));
  expect_success(with_ranks(2, train(recipe, scratch / "2", "cpu:2")));
  EXPECT_EQ(state_of(scratch / "2"), state_of(scratch / "1"));
  expect_success(with_ranks(4, train(with_steps(recipe, recipe.steps / 2), scratch / "4", "cpu")));
  Command more = resume(scratch / "4", "cpu:2");
  more.arguments.insert(more.arguments.end(), {"--total-steps", std::to_string(recipe.steps)});
  expect_success(with_ranks(2, more));
  EXPECT_EQ(summary_of(scratch / "4").at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(scratch / "4"), state_of(scratch / "1"));
  const std::int64_t made = summary_of(scratch / "1").at("env_steps").as_int64();
  EXPECT_GE(made, recipe.steps);
  EXPECT_EQ(summary_of(scratch / "4").at("env_steps").as_int64(), made);
  // Its last update went far beyond the steps that were asked for, and it has ended all the same.
  expect_success(resume(scratch / "1", "cpu"));
}

// What --ranks and the counts of a rank become is in the run's config.yaml.
TEST(DdPpoTest, CountsOfARankAreTotalsInTheRecord) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  expect_success(tandem({"train", "--algo", "dd_ppo", "--env", "CartPole-v1", "--ranks=2", "--run-dir", folder.string(),
                         "--total-steps", "1000", "--epochs", "1"}));
  const std::string config = read_file(folder / "config.yaml");
  EXPECT_THAT(config, AllOf(HasSubstr("num_envs: 10 "), HasSubstr("minibatch_size: 100 "), HasSubstr("shards: 2"),
                            HasSubstr("rollout_steps: 100"), HasSubstr("dd_ppo.envs_per_rank: 5 on each of 2 ranks"),
                            Not(HasSubstr("\n  envs_per_rank:"))));
  EXPECT_EQ(summary_of(folder).at("env_steps").as_int64(), 1000);
  // The same command, on another number of ranks, is the same run.
  Command again = tandem({"train", "--algo", "dd_ppo", "--env", "CartPole-v1", "--run-dir", folder.string(),
                          "--total-steps", "2000", "--epochs", "1", "--resume", "auto"});
  expect_success(again);
  EXPECT_EQ(summary_of(folder).at("env_steps").as_int64(), 2000);
  EXPECT_THAT(read_file(folder / "config.yaml"), HasSubstr("num_envs: 10 "));
  // Also when what the command says would be no run at all on so many ranks: 5 environments in 2 shards.
  Command with_shards = again;
  with_shards.arguments.insert(with_shards.arguments.end(), {"--shards", "2"});
  expect_success(with_shards);
  again.arguments.insert(again.arguments.end(), {"--envs-per-rank", "7"});
  const Ended refused = run(again);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("num_envs = 7 (dd_ppo.envs_per_rank: 7 on each of 1 rank): the run began with 10"));
}

Recipe preempted() {
  Recipe recipe = changing();
  recipe.arguments.insert(recipe.arguments.end(), {"--stragglers", "preempt"});
  return with_setting(with_setting(recipe, "dd_ppo.sync_frac=0.25"), "dd_ppo.least_frac=0.1");
}

Recipe with_flag(Recipe recipe, const char* flag, const char* value) {
  *std::next(std::ranges::find(recipe.arguments, flag)) = value;
  return recipe;
}

// Rollouts that take longer than learning from them: shorter ones are hardly worth an early end.
Recipe under_time_optimal() {
  Recipe recipe = with_steps(changing(), 40'000);
  recipe = with_flag(with_flag(recipe, "--rollout-steps", "1000"), "--minibatch-size", "2000");
  recipe = with_flag(recipe, "--epochs", "1");
  recipe.arguments.insert(recipe.arguments.end(), {"--stragglers", "time_optimal"});
  return with_setting(recipe, "dd_ppo.least_frac=0.1");
}

// Two ranks. Which group comes first, and whether any is worth an early end, is left to the machine; where each ended
// is in the record. Trains anew, a few times at most, while there is nothing to replay.
void train_preempted(const Recipe& recipe, const std::filesystem::path& folder) {
  constexpr int kTimes = 5;
  for (int time = 0; time < kTimes; ++time) {
    std::filesystem::remove_all(folder);
    expect_success(with_ranks(2, train(recipe, folder, "cpu")));
    if (sum_of_metric(folder, "rows_cut") > 0) break;
  }
  EXPECT_THAT(read_file(folder / "rollouts.jsonl"), HasSubstr("{\"updates\":1,\"steps\":["));
  EXPECT_GE(summary_of(folder).at("env_steps").as_int64(), recipe.steps);
  expect_line_for_every_update(folder);
  EXPECT_GT(sum_of_metric(folder, "rows_cut"), 0) << "no rollout ended early in " << kTimes << " runs";
}

// What the record says is enough for the same numbers.
void expect_replay(const Recipe& recipe, const std::filesystem::path& run, const Topology& topology) {
  const TemporaryFolder scratch;
  Command replay = train(recipe, scratch / "replay", topology.devices);
  replay.arguments.insert(replay.arguments.end(), {"--replay", run.string()});
  expect_success(with_ranks(topology.ranks, replay));
  EXPECT_EQ(state_of(scratch / "replay"), state_of(run)) << topology.ranks << " ranks on " << topology.devices;
  EXPECT_EQ(read_file(scratch / "replay" / "rollouts.jsonl"), read_file(run / "rollouts.jsonl"));
}

void expect_refused_replay(const Recipe& recipe, const std::filesystem::path& run,
                           const ::testing::Matcher<std::string>& why) {
  const TemporaryFolder scratch;
  Command replay = train(recipe, scratch / "replay", "cpu:2");
  replay.arguments.insert(replay.arguments.end(), {"--replay", run.string()});
  const Ended refused = tandem::process_test::run(replay);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("dd_ppo.replay"), why));
}

TEST(DdPpoTest, ARunWithPreemptionIsReplayedFromItsRecordOnAnyTopology) {
  const TemporaryFolder scratch;
  const Recipe recipe = preempted();
  const auto run = scratch / "run";
  train_preempted(recipe, run);
  expect_refused_replay(with_steps(recipe, 2 * recipe.steps), run,
                        AllOf(HasSubstr("the record ends after"), HasSubstr("ask for at most")));
  expect_refused_replay(with_flag(with_flag(recipe, "--rollout-steps", "100"), "--minibatch-size", "4"), run,
                        AllOf(HasSubstr("update 1 has groups of 50 steps at most, which are 50 rows"),
                              HasSubstr("fewer than the 100 minibatches")));
  for (const Topology& topology : {Topology{1, "cpu:2"}, Topology{1, "cpu:4"}, Topology{4, "cpu"}})
    expect_replay(recipe, run, topology);
}

// Of a rollout that ends after five of its 50 steps there is one sequence for five minibatches.
TEST(DdPpoTest, ARecurrentPolicyUnderPreemptionIsReplayedFromItsRecordOnAnyTopology) {
  const TemporaryFolder scratch;
  const Recipe recipe = with_setting(with_setting(preempted(), "policy.recurrent=gru"), "policy.max_seq_len=5");
  train_preempted(recipe, scratch / "run");
  for (const Topology& topology : {Topology{1, "cpu:4"}, Topology{2, "cpu:2"}})
    expect_replay(recipe, scratch / "run", topology);
}

TEST(DdPpoTest, ARunUnderTimeOptimalIsReplayedFromItsRecordOnAnyTopology) {
  const TemporaryFolder scratch;
  const Recipe recipe = under_time_optimal();
  train_preempted(recipe, scratch / "run");
  for (const Topology& topology : {Topology{1, "cpu:4"}, Topology{2, "cpu:2"}, Topology{4, "cpu"}})
    expect_replay(recipe, scratch / "run", topology);
}

TEST(LongDdPpoTest, ARunOf100kStepsWithPreemptionIsReplayedOnAnyTopology) {
  const TemporaryFolder scratch;
  const Recipe recipe = with_steps(preempted(), 100'000);
  train_preempted(recipe, scratch / "run");
  for (const Topology& topology : {Topology{1, "cpu:4"}, Topology{2, "cpu:2"}, Topology{4, "cpu"}})
    expect_replay(recipe, scratch / "run", topology);
}

struct Wrong {
  std::vector<std::string> arguments;
  std::string key, remedy;  // both in the message
};

std::vector<Wrong> wrong_configurations() {
  const auto set = [](const std::string& setting) { return std::vector<std::string>{"--set", setting}; };
  return {
      // As the seed's own checks: what belongs to another library, or cannot be at all.
      {set("train_batch_size=500"), "train_batch_size = 500", "rollout_steps"},
      {set("rollout_fragment_length=100"), "rollout_fragment_length = 100", "rollout_steps"},
      {set("framework=tf"), "framework = tf", "LibTorch"},
      {set("num_gpus=1"), "num_gpus = 1", "devices"},
      {set("num_gpus_per_worker=1"), "num_gpus_per_worker = 1", "devices"},
      {set("batch_mode=complete_episodes"), "batch_mode = complete_episodes", "ppo.batch_mode"},
      {{"--batch-mode", "complete_episodes", "--stragglers", "preempt"}, "ppo.batch_mode", "wait_all"},
      {{"--batch-mode", "complete_episodes", "--survivors", "shrink"}, "ppo.batch_mode", "take_over"},
      {set("num_workers=0"), "num_workers = 0", "at least one"},
      {{"--ranks", "0"}, "--ranks 0", "from 1 to 1000"},
      {{"--ranks", "two"}, "--ranks two", "an integer"},
      {{"--backend", "smddp"}, "--backend smddp", "auto, host, tcp or nccl"},
      {set("torch_distributed_backend=smddp"), "torch_distributed_backend = smddp", "--backend"},
      {set("sgd_minibatch_size=50"), "sgd_minibatch_size = 50", "dd_ppo.minibatch_size_per_rank"},
      {set("kl_coeff=0.2"), "kl_coeff = 0.2", "ppo.kl_coef"},
      {set("keep_local_weights_in_sync=false"), "keep_local_weights_in_sync = false", "leave it out"},
      // Counts.
      {{"--envs-per-rank", "0"}, "dd_ppo.envs_per_rank = 0", "from 1"},
      {{"--envs-per-rank", "5", "--num-envs", "10"}, "num_envs", "give one of the two"},
      {{"--minibatch-size-per-rank", "50", "--minibatches", "4"}, "minibatches", "give one of the two"},
      {{"--minibatch-size-per-rank", "333"}, "ppo.minibatch_size = 666", "500 or 1000 would"},
      {{"--minibatch-size-per-rank", "5000"}, "ppo.minibatch_size = 10000", "1000 would"},
      {{"--shards", "3"}, "num_envs = 10 (dd_ppo.envs_per_rank: 5 on each of 2 ranks)", "shards: 2 or 5"},
      {{"--shards", "1"}, "shards = 1", "2 shards"},
      {{"--rollout-steps", "0"}, "rollout_steps = 0", "from 1"},
      {{"--epochs", "0"}, "ppo.epochs = 0", "at least 1"},
      {{"--algo", "ppo", "--envs-per-rank", "5"}, "dd_ppo.envs_per_rank = 5", "has no effect without algo: dd_ppo"},
      // The objective.
      {set("ppo.kl_coef=-1"), "ppo.kl_coef = -1", "at least 0"},
      {set("ppo.kl_coef_target=0.01"), "ppo.kl_coef_target = 0.01", "ppo.kl_coef above 0"},
      {set("ppo.entropy_coef_schedule=linear"), "ppo.entropy_coef_schedule = linear", "ppo.entropy_coef above 0"},
      {{"--strategy", "asynchronous"}, "strategy = asynchronous", "replicated or divided"},
      {{"--strategy", "parameter_server"}, "strategy = parameter_server", "replicated or divided"},
      // Stragglers.
      {{"--stragglers", "none"}, "dd_ppo.stragglers = none", "wait_all, preempt or time_optimal"},
      {{"--algo", "ppo", "--stragglers", "preempt"}, "dd_ppo.stragglers = preempt", "without algo: dd_ppo"},
      {set("dd_ppo.sync_frac=0.5"), "dd_ppo.sync_frac = 0.5", "without dd_ppo.stragglers: preempt"},
      {{"--stragglers", "preempt", "--set", "dd_ppo.sync_frac=1.5"}, "dd_ppo.sync_frac = 1.5", "1"},
      {{"--stragglers", "preempt", "--set", "dd_ppo.least_frac=0"}, "dd_ppo.least_frac = 0", "above 0"},
      {{"--stragglers", "preempt"}, "dd_ppo.sync_frac = 0.6", "ask for at most 0.5"},
      {{"--ranks", "1", "--stragglers", "time_optimal"}, "dd_ppo.stragglers = time_optimal", "one env group"},
      {{"--replay", "/nowhere/rollouts.jsonl"}, "dd_ppo.replay = /nowhere/rollouts.jsonl", "No such file"},
      // Deaths.
      {{"--survivors", "some"}, "survivors = some", "end, take_over or shrink"},
      {{"--survivors", "shrink", "--algo", "ppo"}, "survivors = shrink", "those of PPO take_over"},
      {{"--survivors", "shrink", "--replay", "/nowhere"}, "survivors = shrink", "makes the steps of its record"},
      {{"--deadline", "5"}, "deadline_seconds = 5", "without survivors: take_over or shrink"},
      {{"--survivors", "take_over", "--deadline", "0"}, "deadline_seconds = 0", "1"},
      // Where the ranks run.
      {{"--hosts-by", "0/1"}, "--hosts-by 0/1", "leave it out"},
      {{"--devices", "tpu"}, "devices = tpu", "cpu"},
  };
}

std::vector<std::string> all_wrong() {
  return {
      "--set",          "train_batch_size=500", "--rollout-steps", "0",         "--envs-per-rank", "0",         "--set",
      "ppo.kl_coef=-1", "--strategy",           "asynchronous",    "--backend", "smddp",           "--devices", "tpu"};
}

// As two ranks, unless the case says otherwise. No line is a rank's.
Ended refuse(const std::vector<std::string>& wrong, const std::string& folder) {
  const auto given = [&wrong](const char* flag) { return std::ranges::count(wrong, flag) > 0; };
  std::vector<std::string> arguments{"train", "--env", "CartPole-v1", "--run-dir", folder};
  if (!given("--algo")) arguments.insert(arguments.end(), {"--algo", "dd_ppo"});
  if (!given("--ranks")) arguments.insert(arguments.end(), {"--ranks", "2"});
  arguments.insert(arguments.end(), wrong.begin(), wrong.end());
  return run(tandem(arguments));
}

TEST(DdPpoTest, WrongConfigurationsAreRefusedBeforeAnyProcessStarts) {
  const TemporaryFolder scratch;
  const std::string folder = scratch / "run";
  EXPECT_GE(wrong_configurations().size(), 20u);
  for (const Wrong& wrong : wrong_configurations()) {
    const Ended ended = refuse(wrong.arguments, folder);
    EXPECT_EQ(ended.exit_code, 2) << wrong.key << "\n" << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr(wrong.key), HasSubstr(wrong.remedy), Not(HasSubstr("[0]"))));
    EXPECT_EQ(ended.out, "");
    EXPECT_FALSE(std::filesystem::exists(folder)) << wrong.key;
  }
}

TEST(DdPpoTest, AllFaultsAreReportedAtOnce) {
  const TemporaryFolder scratch;
  const Ended ended = refuse(all_wrong(), scratch / "run");
  EXPECT_EQ(ended.exit_code, 2);
  for (const char* key : {"train_batch_size", "rollout_steps", "dd_ppo.envs_per_rank", "ppo.kl_coef", "strategy",
                          "--backend", "devices"}) {
    EXPECT_THAT(ended.err, HasSubstr(key));
  }
}

TEST(DdPpoTest, RanksWithinRanksAreRefused) {
  const TemporaryFolder scratch;
  const Ended ended = run(as_ranks(2, with_ranks(2, train(changing(), scratch / "run", "cpu"))));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--ranks 2: this process is rank"));
}

}  // namespace
}  // namespace tandem::process_test
