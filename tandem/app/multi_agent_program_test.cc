// `tandem` with environments of several agents, as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/testing/run_captured.h"
#include "tandem/app/train/build_run.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> small(const std::string& env, const std::string& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"train", "--env", env, "--run-dir", folder, "--num-envs", "4"};
  arguments.insert(arguments.end(), {"--rollout-steps", "16", "--total-steps", "256", "--set", "policy.hidden=8"});
  arguments.insert(arguments.end(), {"--shards", "4", "--minibatches", "2", "--epochs", "1"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(MultiAgentProgramTest, ARunHasNumbersOfEachPolicyAndExportsEach) {
  const TemporaryFolder folder;
  const std::string run = folder / "a";
  const Outcome trained = run_captured(small("KuhnPoker-v0", run, {"--devices", "cpu:2"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("--policy player_0 -o policy.pt"));
  const JsonValue summary = read_json(read_file(folder / "a" / "summary.json"));
  for (const std::string policy : {"policy/player_0/", "policy/player_1/"}) {
    for (const std::string field : {"entropy", "grad_norm", "decisions", "episodes", "learning_rate"})
      EXPECT_GT(summary.at(policy + field).as_double(), 0) << policy << field;
  }
  EXPECT_EQ(summary.at("policy/player_0/episode_return_mean").as_double(),
            -summary.at("policy/player_1/episode_return_mean").as_double());
  EXPECT_EQ(summary.at("replicas").as_array().size(), 2U);
  EXPECT_THAT(read_file(folder / "a" / "metrics.jsonl"), HasSubstr("\"policy/player_1/value_loss\":"));

  const Outcome exported = run_captured({"export", run, "--policy", "player_1", "-o", folder / "p.pt"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "p.safetensors"));
  EXPECT_THAT(run_captured({"export", run, "-o", folder / "p.pt"}).err,
              AllOf(HasSubstr("say which with --policy"), HasSubstr("player_0, player_1")));
  EXPECT_THAT(run_captured({"export", run, "--policy", "x", "-o", folder / "p.pt"}).err, HasSubstr("no such policy"));
  EXPECT_EQ(run_captured({"inspect", run}).code, 0);
  EXPECT_EQ(run_captured({"plot", run, "-o", folder / "c.svg"}).code, 0);
}

TEST(MultiAgentProgramTest, EvaluationHasReturnsOfEachAgentAndPolicy) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_captured(small("KuhnPoker-v0", folder / "kuhn")).code, 0);
  const auto evaluated = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"eval", folder / "kuhn", "--episodes", "40", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_captured(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const JsonValue kuhn = read_json(evaluated({}));
  EXPECT_EQ(kuhn.at("episodes").as_int64(), 40);
  EXPECT_EQ(kuhn.at("return_mean").as_double(), 0) << "what one wins the other loses";
  const auto& players = kuhn.at("agents").as_array();
  ASSERT_EQ(players.size(), 2U);
  for (std::size_t episode = 0; episode < 40; ++episode) {
    const double first = players[0].at("returns").as_array().at(episode).as_double();
    EXPECT_THAT(std::abs(first), ::testing::AnyOf(1, 2)) << "chips of a game";
    EXPECT_EQ(players[1].at("returns").as_array().at(episode).as_double(), -first);
    EXPECT_EQ(kuhn.at("lengths").as_array().at(episode).as_int64(),
              std::max(players[0].at("lengths").as_array().at(episode).as_int64(),
                       players[1].at("lengths").as_array().at(episode).as_int64()));
  }
  EXPECT_EQ(players[1].at("agent").as_string(), "player_1");
  EXPECT_EQ(players[1].at("policy").as_string(), "player_1");
  EXPECT_EQ(evaluated({}), evaluated({}));
  EXPECT_NE(evaluated({"--seed", "1"}), evaluated({}));
  std::string drawn = evaluated({"--acting", "sample"});
  ASSERT_EQ(read_json(drawn).at("acting").as_string(), "sample");
  drawn.replace(drawn.find("sample"), 6, "mode");
  EXPECT_NE(drawn, evaluated({})) << "other games";

  // A shared policy, whose return is the mean over its agents.
  ASSERT_EQ(run_captured(small("MultiAgentCartPole-v0", folder / "carts")).code, 0);
  const Outcome text = run_captured({"eval", folder / "carts", "--episodes", "3"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("summed over the agents"), HasSubstr("agent cart_3 (policy "),
                              HasSubstr("cart_0, cart_1, cart_2, cart_3)"), HasSubstr("not solved")));
  const JsonValue carts = read_json(run_captured({"eval", folder / "carts", "--episodes", "3", "--json"}).out);
  double sum = 0;
  for (const JsonValue& cart : carts.at("agents").as_array()) {
    EXPECT_EQ(cart.at("return_mean").as_double(), cart.at("length_mean").as_double()) << "a reward of 1 a step";
    sum += cart.at("return_mean").as_double();
  }
  EXPECT_NEAR(carts.at("return_mean").as_double(), sum, 1e-9);
  ASSERT_EQ(carts.at("policies").as_array().size(), 1U);
  EXPECT_NEAR(carts.at("policies").as_array()[0].at("return_mean").as_double(), sum / 4, 1e-9);
}

TEST(MultiAgentProgramTest, PicturesOfSeveralAgentsKnowWhatCountsAsSolved) {
  TrainOptions options;
  options.env = "MultiAgentCartPole-v0";
  const rl::EnvRegistry native = rl::EnvRegistry::native();
  EXPECT_EQ(threshold_of(native, options), native.find_multi_agent(options.env)->spec.reward_threshold);
  EXPECT_TRUE(threshold_of(native, options).has_value());
}

TEST(MultiAgentProgramTest, AStoppedRunGoesOnToTheSameStateOnOtherReplicas) {
  const TemporaryFolder folder;
  const std::vector<std::string> policies{
      "--set", "multi_agent.policies=leader,others", "--set", "multi_agent.mapping=cart_0=leader,*=others", "--set",
      "multi_agent.policies_to_train=others",
      // Schedules run over total_steps, which is not the same here.
      "--set", "ppo.learning_rate_schedule=constant", "--set", "ppo.clip_range_schedule=constant"};
  const auto state = [&](const char* run) {
    return read_json(read_file(folder / run / "summary.json")).at("state_sha256").as_string();
  };
  ASSERT_EQ(run_captured(small("MultiAgentCartPole-v0", folder / "whole", policies)).code, 0);
  std::vector<std::string> half = small("MultiAgentCartPole-v0", folder / "half", policies);
  *std::ranges::find(half, "256") = "128";
  ASSERT_EQ(run_captured(half).code, 0);
  EXPECT_NE(state("half"), state("whole"));
  const Outcome resumed = run_captured({"resume", folder / "half", "--total-steps", "256", "--devices", "cpu:4"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(state("half"), state("whole"));
  const JsonValue summary = read_json(read_file(folder / "half" / "summary.json"));
  EXPECT_EQ(summary.at("resumed").as_string(), "exactly");
  EXPECT_EQ(summary.find("policy/leader/entropy"), nullptr) << "it does not learn";
  EXPECT_NE(summary.find("policy/leader/episodes"), nullptr);
}

TEST(MultiAgentProgramTest, PoliciesHaveSizesAndHeadsOfTheirOwn) {
  const TemporaryFolder folder;
  const std::vector<std::string> own{"--set", "policies.player_1.hidden=12,10", "--set",
                                     "policies.player_1.trunks=shared"};
  std::vector<std::string> half = small("KuhnPoker-v0", folder / "half", own);
  half.insert(half.end(),
              {"--set", "ppo.learning_rate_schedule=constant", "--set", "ppo.entropy_coef_schedule=constant"});
  std::vector<std::string> whole = half;
  *std::ranges::find(whole, (folder / "half").string()) = folder / "whole";
  *std::ranges::find(half, "256") = "128";
  const Outcome trained = run_captured(half);
  ASSERT_EQ(trained.code, 0) << trained.err;
  ASSERT_EQ(run_captured(whole).code, 0);
  const Outcome resumed = run_captured({"resume", folder / "half", "--total-steps", "256"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const auto state = [&](const char* run) {
    return read_json(read_file(folder / run / "summary.json")).at("state_sha256").as_string();
  };
  EXPECT_EQ(state("half"), state("whole"));
  EXPECT_THAT(read_file(folder / "half" / "config.yaml"), HasSubstr("player_1.hidden: [12, 10]"));
  EXPECT_EQ(run_captured({"eval", folder / "half", "--episodes", "3"}).code, 0);
  for (const std::string policy : {"player_0", "player_1"})
    ASSERT_EQ(
        run_captured({"export", folder / "half", "--policy", policy, "-o", folder / (policy + ".safetensors")}).code,
        0);
  EXPECT_THAT(read_file(folder / "player_0.safetensors"), HasSubstr("\"shape\":[8,9]"));
  EXPECT_THAT(read_file(folder / "player_1.safetensors"), HasSubstr("\"shape\":[10,12]"));
  std::vector<std::string> warm = small("KuhnPoker-v0", folder / "warm", {"--init-from", folder / "half"});
  EXPECT_THAT(run_captured(warm).err, HasSubstr("policy 'player_1'")) << "its layers have other sizes";
  warm.insert(warm.end(), own.begin(), own.end());
  EXPECT_EQ(run_captured(warm).code, 0);
}

TEST(MultiAgentProgramTest, PoliciesThatRememberAreTrainedResumedEvaluatedAndExported) {
  const TemporaryFolder folder;
  std::vector<std::string> half =
      small("KuhnPoker-v0", folder / "half",
            {"--set", "policies.player_1.recurrent=lstm", "--set", "policies.player_1.recurrent_size=6", "--set",
             "policy.max_seq_len=4", "--set", "ppo.learning_rate_schedule=constant", "--set",
             "ppo.entropy_coef_schedule=constant"});
  std::vector<std::string> whole = half;
  *std::ranges::find(whole, (folder / "half").string()) = folder / "whole";
  *std::ranges::find(half, "256") = "128";
  const Outcome trained = run_captured(half);
  ASSERT_EQ(trained.code, 0) << trained.err;
  ASSERT_EQ(run_captured(whole).code, 0);
  const Outcome resumed = run_captured({"resume", folder / "half", "--total-steps", "256", "--devices", "cpu:2"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const auto state = [&](const char* run) {
    return read_json(read_file(folder / run / "summary.json")).at("state_sha256").as_string();
  };
  EXPECT_EQ(state("half"), state("whole"));
  EXPECT_EQ(run_captured({"eval", folder / "half", "--episodes", "3"}).code, 0);
  ASSERT_EQ(
      run_captured({"export", folder / "half", "--policy", "player_1", "-o", folder / "remembers.safetensors"}).code,
      0);
  EXPECT_THAT(read_file(folder / "remembers.safetensors"), HasSubstr("actor.cell.weight_hh"));
  EXPECT_EQ(run_captured({"export", folder / "half", "--policy", "player_0", "-o", folder / "first.pt"}).code, 0);
}

TEST(MultiAgentProgramTest, DdPpoTrainsThemAndARunRepeatsItsRecord) {
  const TemporaryFolder folder;
  const std::vector<std::string> preempt{"--algo",       "dd_ppo",  "--devices", "cpu:2",
                                         "--stragglers", "preempt", "--set",     "dd_ppo.sync_frac=0.25"};
  const Outcome first = run_captured(small("KuhnPoker-v0", folder / "a", preempt));
  ASSERT_EQ(first.code, 0) << first.err;
  std::vector<std::string> words = small("KuhnPoker-v0", folder / "b", {"--algo", "dd_ppo", "--replay", folder / "a"});
  const Outcome again = run_captured(words);
  ASSERT_EQ(again.code, 0) << again.err;
  const auto state = [&](const char* run) {
    return read_json(read_file(folder / run / "summary.json")).at("state_sha256").as_string();
  };
  EXPECT_EQ(state("b"), state("a"));
  EXPECT_EQ(run_captured({"eval", folder / "b", "--episodes", "3"}).code, 0);
}

TEST(MultiAgentProgramTest, EachPolicyHasNormalizersInCheckpointsEvaluationsExportsAndWarmStarts) {
  const TemporaryFolder folder;
  const std::vector<std::string> normalized{
      "--set", "normalize.observations=true",        "--set", "normalize.rewards=true",
      "--set", "multi_agent.policies=leader,others", "--set", "multi_agent.mapping=cart_0=leader,*=others"};
  ASSERT_EQ(run_captured(small("MultiAgentCartPole-v0", folder / "a", normalized)).code, 0);
  EXPECT_THAT(run_captured({"inspect", folder / "a" / "checkpoints" / "u000000000004"}).out,
              AllOf(HasSubstr("normalizers-leader"), HasSubstr("normalizers-others")));
  const Outcome evaluated = run_captured({"eval", folder / "a", "--episodes", "3"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  ASSERT_EQ(run_captured({"export", folder / "a", "--policy", "others", "-o", folder / "others.pt"}).code, 0);
  EXPECT_THAT(read_file(folder / "others.safetensors"), HasSubstr("observation_mean.0"));
  std::vector<std::string> more = normalized;
  more.insert(more.end(), {"--init-from", folder / "a"});
  const Outcome warm = run_captured(small("MultiAgentCartPole-v0", folder / "b", more));
  ASSERT_EQ(warm.code, 0) << warm.err;
  EXPECT_THAT(read_file(folder / "b" / "log.txt"),
              HasSubstr("policy 'leader': the normaliser 'observation.0' is taken"));
}

TEST(MultiAgentProgramTest, WrongSettingsAreRefusedAllAtOnceAndLeaveNoFolder) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& env, std::vector<std::string> settings) {
    std::vector<std::string> more;
    for (std::string& setting : settings) more.insert(more.end(), {"--set", std::move(setting)});
    const Outcome outcome = run_captured(small(env, folder / "no", more));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(std::filesystem::exists(folder / "no"));
    return outcome.err;
  };
  EXPECT_THAT(refused("KuhnPoker-v0", {"multi_agent.mapping=player_0=a", "multi_agent.policies_to_train=b",
                                       "env_restarts=1", "strategy=asynchronous"}),
              AllOf(HasSubstr("agent player_0 of KuhnPoker-v0 is mapped to policy 'a'"),
                    HasSubstr("agent player_1 of KuhnPoker-v0 has no policy"), HasSubstr("'b' is to be trained"),
                    HasSubstr("env_restarts"), HasSubstr("strategy")));
  EXPECT_THAT(refused("KuhnPoker-v0", {"algo=impala", "policies.player_1.recurrent=gru"}),
              HasSubstr("IMPALA and APPO train no policies that remember so far"));
  EXPECT_THAT(refused("KuhnPoker-v0", {"multi_agent.mapping=player_0"}), HasSubstr("is no rule of a mapping"));
  EXPECT_THAT(refused("KuhnPoker-v0", {"policy.head=normal"}), HasSubstr("policy.head"));
  EXPECT_THAT(refused("CartPole-v1", {"multi_agent.policies=a"}), HasSubstr("CartPole-v1 has one agent"));
  EXPECT_THAT(refused("CartPole-v1", {"policies.a.hidden=8"}), HasSubstr("set policy.hidden"));
  EXPECT_THAT(refused("KuhnPoker-v0", {"policies.a.hidden=8", "policies.player_1.head=normal"}),
              AllOf(HasSubstr("there is no policy 'a'; there are player_0, player_1"), HasSubstr("policy.head"),
                    HasSubstr("policy 'player_1': ")));
  EXPECT_THAT(refused("KuhnPoker-v0", {"algo=impala", "impala.splits=2"}), HasSubstr("step in one split"));
}

TEST(MultiAgentProgramTest, EnvironmentsAreListedAndDescribedWithTheirAgents) {
  EXPECT_THAT(run_captured({"envs"}).out,
              AllOf(HasSubstr("KuhnPoker-v0"), HasSubstr("cart_0, cart_1, cart_2, cart_3"), HasSubstr("CartPole-v1")));
  EXPECT_THAT(run_captured({"envs", "KuhnPoker-v0"}).out,
              AllOf(HasSubstr("agent player_1"), HasSubstr("Discrete(4), masked"), HasSubstr("Shipped settings")));
  const JsonValue all = read_json(run_captured({"envs", "KuhnPoker-v0", "--json"}).out);
  EXPECT_EQ(all.as_array().at(0).at("agent_specs").as_array().at(1).at("name").as_string(), "player_1");
  EXPECT_EQ(all.as_array().at(0).at("agents").as_int64(), 2);
}

}  // namespace
}  // namespace tandem::app
