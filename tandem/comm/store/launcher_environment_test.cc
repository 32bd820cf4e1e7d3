#include "tandem/comm/store/launcher_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Variables = std::map<std::string, std::string>;

LauncherEnvironment read(const Variables& variables) {
  return read_launcher_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::vector<std::string> faults_of(const Variables& variables) {
  try {
    (void)read(variables);
  } catch (const ConfigError& error) {
    return error.faults();
  }
  return {};
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kPlain{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
const Variables kTorchrun = with(kPlain, {{"LOCAL_RANK", "1"},
                                          {"LOCAL_WORLD_SIZE", "2"},
                                          {"TORCHELASTIC_RUN_ID", "job"},
                                          {"TORCHELASTIC_RESTART_COUNT", "2"},
                                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "prterun-a-17@1"}};
const Variables kSlurm{{"SLURM_PROCID", "5"},    {"SLURM_NTASKS", "8"},
                       {"SLURM_LOCALID", "1"},   {"SLURM_JOB_NODELIST", "node[07-08,11],login"},
                       {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}};

TEST(LauncherEnvironmentTest, WithoutVariablesItIsASingleProcess) {
  for (const Variables& variables : {Variables{}, Variables{{"RANK", ""}}, Variables{{"MASTER_ADDR", "somewhere"}}}) {
    const LauncherEnvironment found = read(variables);
    EXPECT_EQ(found.launcher, Launcher::kSingleProcess);
    EXPECT_EQ(found.world_size, 1);
    EXPECT_EQ(describe(found), "rank 0 of 1 (local rank 0), by no launcher");
  }
}

TEST(LauncherEnvironmentTest, PlainVariables) {
  const LauncherEnvironment found = read(kPlain);
  EXPECT_EQ(found.launcher, Launcher::kVariables);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.world_size, 4);
  EXPECT_EQ(found.local_rank, 0);
  EXPECT_EQ(found.local_size, std::nullopt);
  EXPECT_EQ(found.master.address, "10.0.0.1");
  EXPECT_EQ(found.master.port, 29500);
  EXPECT_FALSE(found.launcher_hosts_store);
  EXPECT_EQ(read(with(kPlain, {{"LOCAL_RANK", "2"}})).local_rank, 2);
}

TEST(LauncherEnvironmentTest, OneRankNeedsNoMaster) {
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(LauncherEnvironmentTest, Torchrun) {
  const LauncherEnvironment found = read(kTorchrun);
  EXPECT_EQ(found.launcher, Launcher::kTorchrun);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_size, 2);
  EXPECT_FALSE(found.launcher_hosts_store);
  EXPECT_EQ(found.run_id, "job");
  EXPECT_EQ(found.restart_count, 2);
  EXPECT_EQ(found.on_death, OnDeath::kEndsAll);
  EXPECT_THAT(describe(found), AllOf(HasSubstr("rank 1 of 4 (local rank 1 of 2), by torchrun; store at 10.0.0.1:"),
                                     HasSubstr(", hosted by rank 0; run job, restart 2")));
}

// torchrun's own store listens at MASTER_PORT.
TEST(LauncherEnvironmentTest, UnderTorchrunTheStoreHasAPortOfItsOwnAfterEachRestart) {
  const int port = read(kTorchrun).master.port;
  EXPECT_NE(port, 29500);
  EXPECT_NE(read(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "3"}})).master.port, port);
  EXPECT_NE(read(with(kTorchrun, {{"MASTER_PORT", "29501"}})).master.port, port);
  EXPECT_EQ(read(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).master.port, port) << "of another rank";
  EXPECT_EQ(read(with(kTorchrun, {{"TANDEM_STORE_PORT", "31000"}})).master.port, 31000);
  EXPECT_EQ(read(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).master.port, 29500);
  EXPECT_EQ(read(without(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE")).master.port, 29500);
}

TEST(LauncherEnvironmentTest, TheSecretIsReadAndNeverShown) {
  const std::string secret = "0123456789abcdef";
  const LauncherEnvironment found = read(with(kPlain, {{"TANDEM_RUN_SECRET", secret}}));
  EXPECT_EQ(found.secret, secret);
  EXPECT_THAT(describe(found), ::testing::Not(HasSubstr(secret)));
  const TemporaryFolder folder;
  write_file(folder.path() / "secret", secret + "\nanother line");
  const std::string file = (folder.path() / "secret").string();
  EXPECT_EQ(read(with(kPlain, {{"TANDEM_RUN_SECRET_FILE", file}})).secret, secret);
  EXPECT_THAT(faults_of(with(kPlain, {{"TANDEM_RUN_SECRET", "too short"}})),
              ElementsAre(AllOf(HasSubstr("has 9 characters: expected 16"), ::testing::Not(HasSubstr("too short")))));
  EXPECT_THAT(faults_of(with(kPlain, {{"TANDEM_RUN_SECRET", secret}, {"TANDEM_RUN_SECRET_FILE", file}})),
              ElementsAre(HasSubstr("both set")));
  EXPECT_THAT(faults_of(with(kPlain, {{"TANDEM_RUN_SECRET_FILE", file + "-not"}})),
              ::testing::Contains(HasSubstr("no file that can be read")));
}

TEST(LauncherEnvironmentTest, AnAddressInBracketsIsTheAddress) {
  EXPECT_EQ(read(with(kPlain, {{"MASTER_ADDR", "[::1]"}})).master.address, "::1");
}

TEST(LauncherEnvironmentTest, TandemLaunch) {
  const LauncherEnvironment found =
      read(with(without(kTorchrun, "TORCHELASTIC_RUN_ID"), {{"TANDEM_RUN_ID", "t1"}, {"TANDEM_RANK_RESTARTS", "3"}}));
  EXPECT_EQ(found.launcher, Launcher::kTandem);
  EXPECT_TRUE(found.launcher_hosts_store);
  EXPECT_EQ(found.run_id, "t1");
  EXPECT_EQ(found.restart_count, 0);
  EXPECT_EQ(found.rank_restarts, 3);
  EXPECT_EQ(found.on_death, OnDeath::kEndsAll);
  EXPECT_EQ(
      read(with(without(kTorchrun, "TORCHELASTIC_RUN_ID"), {{"TANDEM_RUN_ID", "t1"}, {"TANDEM_ON_DEATH", "continue"}}))
          .on_death,
      OnDeath::kLeavesThem);
  EXPECT_THAT(describe(found), HasSubstr("by tandem launch; store at 10.0.0.1:29500, hosted by tandem launch; run t1, "
                                         "restart 3 of this rank"));
}

TEST(LauncherEnvironmentTest, OpenMpiOnOneHostNeedsNothingElse) {
  const LauncherEnvironment found = read(kOpenMpi);
  EXPECT_EQ(found.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.local_rank, 3);
  EXPECT_EQ(found.local_size, 4);
  EXPECT_EQ(found.master.address, "127.0.0.1");
  EXPECT_EQ(found.run_id, "prterun-a-17@1");
  EXPECT_FALSE(found.launcher_hosts_store);
  EXPECT_GE(found.master.port, 20000);
  EXPECT_LT(found.master.port, 30000);
  EXPECT_NE(found.master.port, read(with(kOpenMpi, {{"PMIX_NAMESPACE", "prterun-a-18@1"}})).master.port);
  EXPECT_EQ(read(with(kOpenMpi, {{"MASTER_PORT", "1234"}})).master.port, 1234);
}

TEST(LauncherEnvironmentTest, SlurmTakesTheFirstHostOfTheJob) {
  const LauncherEnvironment found = read(kSlurm);
  EXPECT_EQ(found.launcher, Launcher::kSlurm);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.world_size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_size, std::nullopt);
  EXPECT_EQ(found.master.address, "node07");
  EXPECT_EQ(found.run_id, "4711.0");
  EXPECT_EQ(found.on_death, OnDeath::kUnknown);
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_KILL_BAD_EXIT", "0"}})).on_death, OnDeath::kLeavesThem);
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_KILL_BAD_EXIT", "1"}})).on_death, OnDeath::kUnknown);
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_RESTART_COUNT", "1"}})).restart_count, 1);
  EXPECT_TRUE(has_other_hosts(read(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "2"}}))));
  EXPECT_FALSE(has_other_hosts(read(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}}))));
  EXPECT_EQ(read(with(kSlurm, {{"MASTER_ADDR", "10.1.1.1"}})).master.address, "10.1.1.1");
}

TEST(LauncherEnvironmentTest, AStepOfAJobCountsBeforeTheJob) {
  const LauncherEnvironment found =
      read(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_STEP_NODELIST", "node[11]"}}));
  EXPECT_EQ(found.world_size, 6);
  EXPECT_EQ(found.master.address, "node11");
}

TEST(LauncherEnvironmentTest, TheInnermostLauncherCounts) {
  EXPECT_EQ(read(with(kSlurm, kTorchrun)).launcher, Launcher::kTorchrun);
  EXPECT_EQ(read(with(kOpenMpi, kTorchrun)).launcher, Launcher::kTorchrun);
  EXPECT_EQ(read(with(kSlurm, kOpenMpi)).launcher, Launcher::kOpenMpi);
  EXPECT_EQ(read(with(kTorchrun, {{"TANDEM_RUN_ID", "t1"}})).launcher, Launcher::kTandem);
  // One shell of a job, from which ranks are started by hand.
  EXPECT_EQ(read(with(with(kSlurm, {{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}}), kPlain)).launcher,
            Launcher::kVariables);
}

TEST(LauncherEnvironmentTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(faults_of({{"RANK", "0"}}),
              UnorderedElementsAre("WORLD_SIZE is not set: it is the number of ranks",
                                   HasSubstr("MASTER_ADDR is not set"), HasSubstr("MASTER_PORT is not set")));
  EXPECT_THAT(faults_of(without(kPlain, "RANK")), ElementsAre(HasSubstr("RANK is not set")));
  EXPECT_THAT(faults_of(without(kPlain, "MASTER_PORT")),
              ElementsAre(AllOf(HasSubstr("MASTER_PORT is not set"), HasSubstr("29500"))));
  EXPECT_THAT(faults_of(without(kTorchrun, "LOCAL_RANK")), ElementsAre("LOCAL_RANK is not set: torchrun sets it"));
  EXPECT_THAT(faults_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}})),
              ElementsAre(AllOf(HasSubstr("MASTER_ADDR is not set"),
                                HasSubstr("nothing in what Open MPI set says where rank 0 is"))));
  EXPECT_THAT(faults_of(with(kSlurm, {{"SLURM_JOB_NODELIST", "node[07-"}})), ElementsAre(HasSubstr("node[07-")));
}

TEST(LauncherEnvironmentTest, WrongValuesAreNamedWithWhatWouldWork) {
  EXPECT_THAT(faults_of(with(kPlain, {{"RANK", "one"}})),
              ElementsAre("RANK = one: expected an integer from 0 to 999999"));
  EXPECT_THAT(faults_of(with(kPlain, {{"RANK", "-1"}})), ElementsAre(HasSubstr("RANK = -1: expected")));
  EXPECT_THAT(faults_of(with(kPlain, {{"WORLD_SIZE", "0"}})), ElementsAre(HasSubstr("WORLD_SIZE = 0: expected")));
  EXPECT_THAT(faults_of(with(kPlain, {{"MASTER_PORT", "70000"}})),
              ElementsAre("MASTER_PORT = 70000: expected an integer from 1 to 65535"));
  EXPECT_THAT(faults_of(with(kPlain, {{"RANK", "4"}})), ElementsAre("RANK = 4: WORLD_SIZE is 4, so it is from 0 to 3"));
  EXPECT_THAT(faults_of(with(kTorchrun, {{"LOCAL_RANK", "2"}})),
              ElementsAre("LOCAL_RANK = 2: LOCAL_WORLD_SIZE is 2, so it is from 0 to 1"));
  EXPECT_THAT(faults_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}})),
              ElementsAre("LOCAL_WORLD_SIZE = 5: more than all ranks, of which WORLD_SIZE says there are 4"));
  EXPECT_THAT(faults_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "1"}})),
              ElementsAre("TORCHELASTIC_USE_AGENT_STORE = 1: expected True or False"));
  EXPECT_THAT(faults_of(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "x"}})),
              ElementsAre(HasSubstr("TORCHELASTIC_RESTART_COUNT = x")));
}

TEST(LauncherEnvironmentTest, ContradictionsAreNamed) {
  EXPECT_THAT(faults_of(with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "4"}})),
              ElementsAre("RANK = 0: contradicts OMPI_COMM_WORLD_RANK = 3; unset one of them"));
  EXPECT_THAT(faults_of(with(kSlurm, kPlain)),
              UnorderedElementsAre("RANK = 1: contradicts SLURM_PROCID = 5; unset one of them",
                                   "WORLD_SIZE = 4: contradicts SLURM_NTASKS = 8; unset one of them"));
  EXPECT_THAT(faults_of(with(kSlurm, with(kPlain, {{"RANK", "5"}, {"WORLD_SIZE", "8"}}))), IsEmpty());
}

TEST(LauncherEnvironmentTest, AllFaultsAreReportedAtOnce) {
  EXPECT_THAT(faults_of({{"RANK", "x"}, {"WORLD_SIZE", "y"}, {"LOCAL_RANK", "z"}, {"MASTER_PORT", "0"}}),
              UnorderedElementsAre(HasSubstr("RANK = x"), HasSubstr("WORLD_SIZE = y"), HasSubstr("LOCAL_RANK = z"),
                                   HasSubstr("MASTER_PORT = 0"), HasSubstr("MASTER_ADDR is not set")));
}

TEST(LauncherEnvironmentTest, TheProcessKnowsItsHost) { EXPECT_FALSE(launcher_environment().host_name.empty()); }

TEST(SlurmNodeListTest, TheFirstHostIsFound) {
  EXPECT_EQ(first_host("node07"), "node07");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("node[07-09,12],login1"), "node07");
  EXPECT_EQ(first_host("rack[1-2]-n[3,5]"), "rack1-n3");
  for (const char* bad : {"", ",a", "node[", "node[]", "node]1", "node[-2]"})
    EXPECT_EQ(first_host(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace tandem::comm
