#include "tandem/app/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tandem/app/testing/native_algorithms.h"
#include "tandem/base/error.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

template <typename Kind>
Kind read(const std::vector<std::string>& arguments) {
  return std::get<Kind>(read_command_line(arguments));
}

std::vector<std::string> faults_of(const std::vector<std::string>& arguments) {
  try {
    (void)read_command_line(arguments);
  } catch (const ConfigError& error) {
    return error.faults();
  }
  return {};
}

std::vector<std::string> shown(const std::vector<Setting>& settings) {
  std::vector<std::string> lines;
  for (const Setting& setting : settings) lines.push_back(describe_fault(setting, ""));
  return lines;
}

TEST(CommandLineTest, TrainTakesAFileAndFlags) {
  const ConfigSources sources =
      read<TrainCommand>({"train", "a.yaml", "--env", "CartPole-v1", "--seed=3", "--set", "ppo.gamma=0.9", "--quiet",
                          "--plugin", "a.so", "--plugin", "b.so", "--minibatch-size", "64"})
          .sources;
  EXPECT_EQ(sources.file, "a.yaml");
  EXPECT_THAT(sources.flag_faults, IsEmpty());
  EXPECT_THAT(shown(sources.flags),
              UnorderedElementsAre("env = CartPole-v1 (--env): ", "seed = 3 (--seed): ", "ppo.gamma = 0.9 (--set): ",
                                   "quiet = true (--quiet): ", "plugins = [a.so, b.so] (--plugin): ",
                                   "ppo.minibatch_size = 64 (--minibatch-size): "));
}

TEST(CommandLineTest, RanksAreStartedWithTheSameCommandLineButForTheirNumber) {
  const RanksAsked train =
      read<TrainCommand>({"train", "a.yaml", "--ranks", "2", "--seed", "3", "--backend", "tcp"}).ranks;
  EXPECT_EQ(train.count, 2);
  EXPECT_THAT(train.arguments, ElementsAre("train", "a.yaml", "--seed", "3", "--backend", "tcp"));
  EXPECT_EQ(train.world.backend, "tcp");
  const RanksAsked resume = read<ResumeCommand>({"resume", "--ranks=4", "runs/a"}).ranks;
  EXPECT_EQ(resume.count, 4);
  EXPECT_THAT(resume.arguments, ElementsAre("resume", "runs/a"));
  EXPECT_EQ(read<TrainCommand>({"train"}).ranks.count, std::nullopt);
  EXPECT_THAT(read<TrainCommand>({"train", "--ranks", "0"}).sources.flag_faults, ElementsAre(HasSubstr("--ranks 0")));
  EXPECT_THAT(faults_of({"resume", "a", "--ranks", "x"}), ElementsAre(HasSubstr("--ranks x")));
}

TEST(CommandLineTest, ASimulationTakesCostsAndRanks) {
  const SimulateScaleCommand command = read<SimulateScaleCommand>(
      {"simulate-scale", "--step", "pareto:1:1.5", "--ranks", "1,4", "--slow-rank", "4", "-o", "a.svg", "--json"});
  EXPECT_EQ(command.options.work.step, (Cost{.mean_ms = 1, .shape = 1.5}));
  EXPECT_THAT(command.options.ranks, ElementsAre(1, 4));
  EXPECT_EQ(command.options.work.slow_factor, 4);
  EXPECT_EQ(command.options.picture, "a.svg");
  EXPECT_EQ(command.output, Output::kJson);
  EXPECT_TRUE(command.result.empty());
  EXPECT_THAT(faults_of({"simulate-scale", "--step", "soon", "--ranks", "2,1", "--steps", "0", "-o", "a.gif",
                         "--model-ranks", "1e9", "--minibatch", "pareto:1:1"}),
              UnorderedElementsAre(HasSubstr("--step soon"), HasSubstr("--ranks 2,1"), HasSubstr("--steps 0"),
                                   HasSubstr("--output a.gif"), HasSubstr("--model-ranks 1e9"),
                                   HasSubstr("--minibatch pareto:1:1")));
  EXPECT_THAT(faults_of({"simulate-scale", "--ranks", "2,4"}), ElementsAre(HasSubstr("begin with 1")));
}

TEST(CommandLineTest, AFlagTakesOneValueAndLeavesTheFileAlone) {
  const ConfigSources sources = read<TrainCommand>({"train", "--seed", "1", "a.yaml"}).sources;
  EXPECT_EQ(sources.file, "a.yaml");
  EXPECT_THAT(shown(sources.flags), ElementsAre("seed = 1 (--seed): "));
}

TEST(CommandLineTest, AFlagGivenTwiceReachesTheTableTwice) {
  EXPECT_THAT(shown(read<TrainCommand>({"train", "--seed", "1", "--seed", "2"}).sources.flags),
              ElementsAre("seed = 1 (--seed): ", "seed = 2 (--seed): "));
}

TEST(CommandLineTest, AValueMayHoldEqualsSignsCommasAndAMinus) {
  const ConfigSources sources =
      read<TrainCommand>({"train", "--set", "env=a=b", "--set", "policy.hidden=64,32", "--seed", "-1"}).sources;
  EXPECT_THAT(shown(sources.flags),
              UnorderedElementsAre("env = a=b (--set): ", "policy.hidden = 64,32 (--set): ", "seed = -1 (--seed): "));
}

TEST(CommandLineTest, FaultsOfTrainsFlagsAreKeptForLater) {
  const ConfigSources sources =
      read<TrainCommand>({"train", "--num-env", "8", "--set", "gamma", "--set", "=1", "--seed", "1"}).sources;
  EXPECT_EQ(sources.file, std::nullopt);  // 8 is no file but the value of a flag that does not exist
  EXPECT_THAT(sources.flag_faults,
              ElementsAre("--num-env: there is no such flag; the nearest one is --num-envs",
                          HasSubstr("--set gamma: expected key=value"), HasSubstr("--set =1: expected key=value")));
}

TEST(CommandLineTest, AFlagThatIsTheEndOfAKeyIsAnsweredWithWhatSetsIt) {
  const auto answer = [](const char* flag) {
    return read<TrainCommand>({"train", flag, "1"}).sources.flag_faults.at(0);
  };
  EXPECT_THAT(answer("--learning_rate"),
              StartsWith("--learning_rate: there is no such flag; use --set ppo.learning_rate=VALUE or --set "
                         "impala.learning_rate=VALUE or --set sac.learning_rate=VALUE"));
  EXPECT_EQ(answer("--clip_range_schedule"),
            "--clip_range_schedule: there is no such flag; use --set ppo.clip_range_schedule=VALUE");
  EXPECT_THAT(answer("--batch-size"), StartsWith("--batch-size: there is no such flag; use --minibatch-size"));
  EXPECT_THAT(answer("--abc"), HasSubstr("or --set for other keys"));
  EXPECT_THAT(faults_of({"eval", "runs/a", "--learning_rate", "1"}), ElementsAre(HasSubstr("see tandem eval --help")));
}

TEST(CommandLineTest, ResumeTakesOnlyWhatMayChange) {
  const ResumeCommand command = read<ResumeCommand>({"resume", "runs/a", "--total-steps", "9", "--devices", "cpu:4"});
  EXPECT_EQ(command.run, "runs/a");
  EXPECT_THAT(shown(command.flags),
              UnorderedElementsAre("total_steps = 9 (--total-steps): ", "devices = cpu:4 (--devices): "));
  EXPECT_THAT(faults_of({"resume", "runs/a", "--num-envs", "4"}),
              ElementsAre(HasSubstr("--num-envs: a flag of tandem train, for a new run")));
}

TEST(CommandLineTest, EvalTakesNumbersWithinTheirRange) {
  const EvalCommand command = read<EvalCommand>({"eval", "runs/a", "--episodes", "5", "--seed", "2", "--json"});
  EXPECT_EQ(command.source, "runs/a");
  EXPECT_EQ(command.episodes, 5);
  EXPECT_EQ(command.seed, 2);
  EXPECT_EQ(command.output, Output::kJson);
  EXPECT_EQ(command.acting, rl::Acting::kMode);
  EXPECT_EQ(read<EvalCommand>({"eval", "runs/a", "--acting", "sample"}).acting, rl::Acting::kSample);
  EXPECT_THAT(faults_of({"eval", "runs/a", "--episodes", "0", "--seed", "x", "--acting", "best"}),
              ElementsAre("--episodes 0: expected an integer at least 1", "--seed x: expected an integer at least 0",
                          "--acting best: expected mode or sample"));
}

TEST(CommandLineTest, AVideoNamesAKindOfFileAndRecordsNoMoreThanIsPlayed) {
  const EvalCommand command = read<EvalCommand>({"eval", "runs/a", "--video", "a.mp4", "--video-fps", "12.5"});
  EXPECT_EQ(command.video.path, "a.mp4");
  EXPECT_EQ(command.video.fps, 12.5);
  EXPECT_EQ(read<EvalCommand>({"eval", "runs/a", "--video", "frames/"}).video.path, "frames/");
  EXPECT_TRUE(read<EvalCommand>({"eval", "runs/a"}).video.path.empty());
  EXPECT_THAT(faults_of({"eval", "runs/a", "--video", "a.avi"}), ElementsAre(HasSubstr("ends with .gif or .mp4")));
  EXPECT_THAT(faults_of({"eval", "runs/a", "--video-fps", "5"}), ElementsAre(HasSubstr("no effect without --video")));
  EXPECT_THAT(faults_of({"eval", "runs/a", "--video", "a.gif", "--episodes", "2", "--video-episodes", "3"}),
              ElementsAre(HasSubstr("only 2 are played")));
  EXPECT_THAT(
      faults_of({"eval", "runs/a", "--video", "a.gif", "--video-episodes", "9", "--video-steps", "99999999999"}),
      ElementsAre(HasSubstr("at most 200000 steps")));
}

TEST(CommandLineTest, TheOtherCommandsTakeTheirPaths) {
  EXPECT_EQ(read<InspectCommand>({"inspect", "runs/a"}).source, "runs/a");
  EXPECT_EQ(read<TopCommand>({"top", "runs/a"}).run, "runs/a");
  EXPECT_EQ(read<TopCommand>({"top", "runs/a"}).frames, Frames::kMany);
  EXPECT_EQ(read<TopCommand>({"top", "runs/a", "--once"}).frames, Frames::kOne);
  const PlotCommand plot = read<PlotCommand>({"plot", "runs/a", "runs/b", "-o", "c.svg"});
  EXPECT_THAT(plot.runs, ElementsAre("runs/a", "runs/b"));
  EXPECT_EQ(plot.picture, "c.svg");
  EXPECT_EQ(read<ExportCommand>({"export", "runs/a", "-o", "p.pt"}).policy, "p.pt");
  EXPECT_EQ(read<ExportCommand>({"export", "runs/a", "-o", "p.pt"}).after, AfterExport::kNothing);
  EXPECT_EQ(read<ExportCommand>({"export", "runs/a", "-o", "p.h", "--check"}).after, AfterExport::kCheck);
  EXPECT_EQ(read<EnvsCommand>({"envs"}).name, std::nullopt);
  EXPECT_EQ(read<EnvsCommand>({"envs", "X-v0", "--json"}).name, "X-v0");
  EXPECT_THAT(read<EnvsCommand>({"envs", "X-v0", "--env-option", "a=1"}).env_options, ElementsAre("a=1"));
  EXPECT_THAT(faults_of({"envs", "--env-option", "a=1"}), ElementsAre(HasSubstr("--env-option: options belong to")));
  const CheckCommand check = read<CheckCommand>({"check", "X-v0", "--steps", "500", "--plugin", "a.so"});
  EXPECT_EQ(check.env, "X-v0");
  EXPECT_EQ(check.steps, 500);
  EXPECT_THAT(check.plugins, ElementsAre("a.so"));
  EXPECT_THAT(faults_of({"check"}), ElementsAre(HasSubstr("NAME is required")));
  EXPECT_EQ(read<VersionCommand>({"version"}).output, Output::kText);
}

TEST(CommandLineTest, LaunchTakesTheCommandBehindTheDashesAsItIs) {
  const LaunchOptions options =
      read<LaunchCommand>({"launch", "--ranks", "4", "--on-death", "replace", "--grace", "0.5", "--max-restarts", "1",
                           "--", "./mine", "--ranks", "x", "--", "--help"})
          .options;
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.on_death, OnDeath::kReplace);
  EXPECT_EQ(options.grace, std::chrono::milliseconds(500));
  EXPECT_EQ(options.max_restarts, 1);
  EXPECT_THAT(options.command, ElementsAre("./mine", "--ranks", "x", "--", "--help"));
  EXPECT_EQ(read<LaunchCommand>({"launch", "--ranks", "1", "--", "mine"}).options.on_death, OnDeath::kStop);
}

TEST(CommandLineTest, FaultsOfLaunchAreReportedTogether) {
  EXPECT_THAT(faults_of({"launch", "--ranks", "0", "--on-death", "restart", "--grace", "-1", "--max-restarts", "2"}),
              ElementsAre("--ranks 0: expected an integer from 1 to 1000",
                          "--on-death restart: expected stop, continue or replace",
                          "--grace -1: expected seconds from 0 to 86400",
                          "--max-restarts 2: has no effect without --on-death replace",
                          HasSubstr("there is no command to launch: put it behind --")));
  EXPECT_THAT(faults_of({"launch", "--", "mine"}), ElementsAre(HasSubstr("--ranks is not given")));
  EXPECT_THAT(faults_of({"launch", "--ranks", "2", "./mine"}),
              ElementsAre(HasSubstr("tandem launch does not take './mine'"), HasSubstr("put it behind --")));
}

TEST(CommandLineTest, TuneTakesWhatTrainTakesButForOneRunsFolder) {
  const TuneCommand tune =
      read<TuneCommand>({"tune", "a.yaml", "--num-envs", "4", "--set", "ppo.gamma=0.9", "--vary",
                         "shards,devices,shards", "--rounds", "3", "--seconds", "0.5", "-o", "b.yaml", "--json"});
  EXPECT_EQ(tune.sources.file, "a.yaml");
  EXPECT_THAT(tune.sources.flag_faults, IsEmpty());
  EXPECT_THAT(shown(tune.sources.flags),
              UnorderedElementsAre("num_envs = 4 (--num-envs): ", "ppo.gamma = 0.9 (--set): "));
  EXPECT_THAT(tune.options.vary, ElementsAre("shards", "devices"));
  EXPECT_EQ(tune.options.rounds, 3);
  EXPECT_EQ(tune.options.seconds, 0.5);
  EXPECT_EQ(tune.options.output, "b.yaml");
  EXPECT_EQ(tune.output, Output::kJson);
  EXPECT_THAT(read<TuneCommand>({"tune", "--env", "CartPole-v1"}).options.vary, IsEmpty());
  EXPECT_EQ(read<TuneCommand>({"tune"}).options.output, "tuned.yaml");
}

TEST(CommandLineTest, FaultsOfTuneAreReportedTogether) {
  EXPECT_THAT(
      read<TuneCommand>({"tune", "--vary", "shrds,devices", "--rounds", "0", "--seconds", "-1", "--run-dir", "a"})
          .sources.flag_faults,
      ElementsAre(HasSubstr("--run-dir: a flag of tandem train"),
                  AllOf(HasSubstr("--vary shrds,devices: expected a list, each devices, strategy, shards, num_envs"),
                        HasSubstr("found \"shrds\" in it")),
                  "--rounds 0: expected an integer from 1 to 1000",
                  "--seconds -1: expected a number above 0, at most 3600"));
}

TEST(CommandLineTest, WhatIsMissingOrUnknownIsNamed) {
  EXPECT_THAT(faults_of({"trian"}), ElementsAre("there is no command 'trian'; the nearest one is train"));
  EXPECT_THAT(faults_of({}), ElementsAre(HasSubstr("name a command")));
  EXPECT_THAT(faults_of({"--seed", "1"}), ElementsAre(HasSubstr("no command")));
  EXPECT_THAT(faults_of({"resume"}), ElementsAre(HasSubstr("RUN_DIR is required; e.g. tandem resume runs/pole")));
  EXPECT_THAT(faults_of({"plot", "runs/a"}),
              ElementsAre(AllOf(HasSubstr("--output is required"), HasSubstr("e.g. tandem plot"))));
  EXPECT_THAT(faults_of({"plot", "runs/a"}), ElementsAre(HasSubstr("--output")));
  EXPECT_THAT(faults_of({"train", "--seed"}),
              ElementsAre("--seed: one value must follow, and it may be given once; see --help"));
  EXPECT_THAT(faults_of({"inspect", "a", "b"}), ElementsAre(HasSubstr("tandem inspect does not take 'b'")));
  EXPECT_THAT(faults_of({"version", "--jsn"}), ElementsAre(HasSubstr("the nearest one is --json")));
}

// As the program's help lists them, one a line between the heading and a blank line.
std::vector<std::string> listed_commands() {
  std::istringstream help(read<HelpCommand>({"--help"}).text);
  std::vector<std::string> commands;
  bool below_heading = false;
  for (std::string line; std::getline(help, line);) {
    if (below_heading && line.empty()) break;
    if (below_heading && line.find_first_not_of(' ') == 2) commands.push_back(line.substr(2, line.find(' ', 2) - 2));
    below_heading = below_heading || line == "Subcommands:";
  }
  return commands;
}

TEST(CommandLineTest, EveryCommandHasHelpWithAnExample) {
  EXPECT_THAT(read<HelpCommand>({"plot", "--help"}).text, HasSubstr("--x steps|time|episodes"));
  EXPECT_THAT(read<HelpCommand>({"--help"}).text, HasSubstr("First steps"));
  const std::vector<std::string> commands = listed_commands();
  ASSERT_THAT(commands, ::testing::IsSupersetOf({"train", "top", "simulate-scale", "version"}));  // it was understood
  for (const std::string& command : commands) {
    EXPECT_THAT(read<HelpCommand>({command, "--help"}).text, HasSubstr("Example:\n  tandem " + command));
  }
}

TEST(CommandLineTest, HelpOfTrainListsEveryKeyAndFlag) {
  const std::string help = read<HelpCommand>({"train", "-h"}).text;
  TrainOptions options;
  const OptionTable table = option_table(options);
  for (const auto& option : table.options()) {
    EXPECT_THAT(help, HasSubstr("\n  " + option->key() + ": "));
    EXPECT_THAT(help, HasSubstr(option->flag()));
    EXPECT_FALSE(option->help().empty()) << option->key();
  }
}

}  // namespace
}  // namespace tandem::app
