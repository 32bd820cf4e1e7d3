// Runs and checkpoints that were damaged, or belong to something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bad_input.h"
#include "tandem/base/digest/sha256.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Spoils the checkpoint after update 3.
using Damage = void (*)(const fs::path& checkpoint);

void change(const fs::path& file, const std::function<void(std::string&)>& edit) {
  std::string text = read_text(file);
  const std::string before = text;
  edit(text);
  ASSERT_NE(text, before) << file << " was not changed";
  write_text(file, text);
}

void replace(const fs::path& file, std::string_view from, std::string_view to) {
  change(file, [&](std::string& text) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  });
}

// A manifest with another text that vouches for itself again.
void reseal(const fs::path& file, std::string_view from, std::string_view to) {
  replace(file, from, to);
  change(file, [](std::string& text) {
    constexpr std::string_view kSeal = ",\"manifest_sha256\":\"";
    text.resize(text.rfind(kSeal));
    const std::string digest = sha256_hex(std::as_bytes(std::span(text)));
    text += concat(kSeal, digest, "\"}\n");
  });
}

struct BadCheckpoint {
  const char* name;
  Damage damage;
  std::vector<std::string> words;
};
void PrintTo(const BadCheckpoint& bad, std::ostream* out) { *out << bad.name; }

class BadCheckpointTest : public ::testing::TestWithParam<BadCheckpoint> {};

// Whatever asks for the newest checkpoint says what is wrong with it and names the whole one before it.
TEST_P(BadCheckpointTest, IsNamedByEveryCommandAndTheOneBeforeItStays) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  const std::string newest = checkpoint_of("run", 3);
  GetParam().damage(checkpoint_of(run, 3));
  std::vector<std::string> words = GetParam().words;
  words.emplace_back("u000000000003");
  const auto refused = [&](std::vector<std::string> arguments) {
    expect_refusal(tandem(folder.path(), std::move(arguments)), kRunFailed, words);
  };
  refused({"inspect", newest});
  words.emplace_back("newest checkpoint cannot be used");
  words.emplace_back("u000000000002");
  refused({"resume", "run", "--total-steps", "1024"});
  refused({"export", "run", "-o", "policy.pt"});
  EXPECT_FALSE(fs::exists(folder / "policy.pt"));
  EXPECT_TRUE(fs::exists(checkpoint_of(run, 3))) << "a damaged one is the user's to remove";
  expect_usable(checkpoint_of(run, 2));
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadCheckpointTest,
    ::testing::Values(
        BadCheckpoint{"PartCutOff",
                      [](const fs::path& at) { fs::resize_file(at / "state.safetensors", 1000); },
                      {"state.safetensors", "damaged", "1000 bytes"}},
        BadCheckpoint{"PartEmpty",
                      [](const fs::path& at) { fs::resize_file(at / "shard-0.safetensors", 0); },
                      {"shard-0.safetensors", "damaged", "0 bytes"}},
        BadCheckpoint{"PartWithAFlippedBit",
                      [](const fs::path& at) {
                        change(at / "state.safetensors", [](std::string& text) { text[text.size() / 2] ^= 4; });
                      },
                      {"state.safetensors", "damaged", "SHA-256"}},
        BadCheckpoint{"PartMissing",
                      [](const fs::path& at) { fs::remove(at / "normalizers.safetensors"); },
                      {"lacks its part normalizers.safetensors"}},
        BadCheckpoint{"PartOfAnother",
                      [](const fs::path& at) {
                        fs::copy_file(checkpoint_of(at.parent_path().parent_path(), 2) / "run.safetensors",
                                      at / "run.safetensors", fs::copy_options::overwrite_existing);
                      },
                      {"run.safetensors", "damaged"}},
        BadCheckpoint{"PartIsAFolder",
                      [](const fs::path& at) {
                        fs::remove(at / "run.safetensors");
                        fs::create_directory(at / "run.safetensors");
                      },
                      {"run.safetensors", "Is a directory"}},
        BadCheckpoint{"ManifestCutOff",
                      [](const fs::path& at) { fs::resize_file(at / "manifest.json", 200); },
                      {"manifest.json cannot be used", "200 bytes", "cut off"}},
        BadCheckpoint{"ManifestEmpty",
                      [](const fs::path& at) { fs::resize_file(at / "manifest.json", 0); },
                      {"manifest.json cannot be used", "0 bytes"}},
        BadCheckpoint{"ManifestWithAFlippedBit",
                      [](const fs::path& at) {
                        change(at / "manifest.json", [](std::string& text) { text[text.size() / 2] ^= 1; });
                      },
                      {"manifest.json cannot be used", "SHA-256"}},
        BadCheckpoint{
            "ManifestOfANewerTandem",
            [](const fs::path& at) { reseal(at / "manifest.json", "\"format_version\":1", "\"format_version\":99"); },
            {"manifest.json cannot be used", "format version 99", "reads versions 1 to"}},
        BadCheckpoint{"ManifestOfAnotherFormat",
                      [](const fs::path& at) { reseal(at / "manifest.json", "tandem-checkpoint", "duet-checkpoint"); },
                      {"manifest.json cannot be used", "duet-checkpoint"}},
        BadCheckpoint{
            "ManifestThatLeadsOut",
            [](const fs::path& at) { reseal(at / "manifest.json", "\"name\":\"state\"", "\"name\":\"../../state\""); },
            {"manifest.json cannot be used", "cannot be the name of a part"}},
        BadCheckpoint{"ManifestOfText",
                      [](const fs::path& at) { write_text(at / "manifest.json", "hello\n"); },
                      {"manifest.json cannot be used", "no manifest of tandem"}}),
    [](const auto& tested) { return std::string(tested.param.name); });

// Not yet, or no longer, a checkpoint: as an interrupted writing leaves it. Its run goes on from the one before.
TEST(BadCheckpointFolderTest, OneWithoutAManifestIsNoneAndTheRunGoesOn) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  fs::remove(checkpoint_of(run, 3) / "manifest.json");
  expect_refusal(tandem(folder.path(), {"eval", checkpoint_of("run", 3)}), kUserCanFixIt,
                 {"u000000000003", "nor a checkpoint", "manifest.json"});
  expect_success(tandem(folder.path(), split("eval run --episodes 1")));
  expect_success(tandem(folder.path(), split("resume run --quiet")));
  expect_usable(checkpoint_of(run, 3));
}

TEST(BadCheckpointFolderTest, AnEmptyOrForeignFolderIsNamed) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "empty");
  fs::create_directories(folder / "foreign");
  write_text(folder / "foreign/notes.txt", "not a run");
  for (const char* command : {"eval", "inspect", "export -o policy.pt", "plot -o curve.png", "resume"}) {
    for (const char* name : {"empty", "foreign", "foreign/notes.txt"}) {
      std::vector<std::string> words = split(command);
      words.emplace_back(name);
      expect_refusal(tandem(folder.path(), words), kUserCanFixIt, {name});
    }
  }
}

TEST(BadCheckpointFolderTest, ARunWithoutACheckpointSaysSo) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  fs::remove_all(run / "checkpoints");
  for (const char* command : {"eval run", "export run -o policy.pt"}) {
    expect_refusal(tandem(folder.path(), split(command)), kUserCanFixIt, {"run", "no checkpoint yet"});
  }
}

TEST(BadCheckpointFolderTest, AnEvaluationOfADamagedOneIsRefused) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  change(checkpoint_of(run, 3) / "state.safetensors", [](std::string& text) { text.back() ^= 1; });
  for (const std::string& name : {std::string("run"), checkpoint_of("run", 3).string()}) {
    expect_refusal(tandem(folder.path(), {"eval", name, "--episodes", "1"}), kRunFailed,
                   {"u000000000003/state.safetensors is damaged"});
  }
}

TEST(BadCheckpointFolderTest, AllOfThemDamagedIsSaid) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  for (const int updates : {1, 2, 3}) fs::resize_file(checkpoint_of(run, updates) / "state.safetensors", 10);
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kRunFailed,
                 {"no older one is whole", "state.safetensors"});
}

// A run whose settings say another model than its checkpoints hold.
TEST(BadCheckpointFolderTest, AnotherModelIsRefused) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  replace(run / "config.yaml", "hidden: [64, 64]", "hidden: [32, 32]");
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt,
                 {"policy.hidden = [32, 32]", "config.yaml", "u000000000003 was made with [64, 64]"});
  expect_usable(checkpoint_of(run, 3));
}

TEST(BadCheckpointFolderTest, AnotherEnvironmentIsRefused) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  replace(run / "config.yaml", "env: CartPole-v1", "env: Acrobot-v1");
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt,
                 {"env = Acrobot-v1", "config.yaml", "u000000000003 was made with CartPole-v1"});
  expect_usable(checkpoint_of(run, 3));
}

TEST(BadCheckpointFolderTest, ADamagedConfigurationOfARunIsNamed) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  const auto refused = [&](std::string_view text, const std::vector<std::string>& words) {
    write_text(run / "config.yaml", text);
    expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt, words);
  };
  refused("", {"env"});
  refused("ppo: {gamma", {"config.yaml:1"});
  refused("env: CartPole-v1\nnum_envs: many\n", {"num_envs = many", "config.yaml:2"});
  expect_usable(checkpoint_of(run, 3));
}

TEST(BadCheckpointFolderTest, OtherSettingsThanTheRunBeganWithAreNamed) {
  const TemporaryFolder folder;
  copy_of_run(folder.path());
  expect_refusal(tandem(folder.path(), split("resume run --set ppo.gamma=0.5")), kUserCanFixIt,
                 {"ppo.gamma = 0.5 (--set)", "cannot change", "start a new run"});
  expect_refusal(tandem(folder.path(), split("train --env CartPole-v1 --run-dir run --resume auto --seed 7")),
                 kUserCanFixIt, {"seed = 7 (--seed)", "began with 0", "new run"});
}

TEST(BadCheckpointFolderTest, SettingsThatWereChangedInConfigYamlAreAllNamed) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  replace(run / "config.yaml", "\nseed: 0", "\nseed: 5");
  replace(run / "config.yaml", "  gamma: 0.98", "  gamma: 0.5");
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt,
                 {"seed = 5", "was made with 0; set it back", "ppo.gamma = 0.5", "was made with 0.98"});
  expect_usable(checkpoint_of(run, 3));
}

TEST(BadCheckpointFolderTest, WhatIsNotAskedForIsAsTheRunBegan) {
  const TemporaryFolder folder;
  expect_success(tandem(folder.path(), split("train --env CartPole-v1 --seed 7 --total-steps 512 --quiet "
                                             "--set ppo.gamma=0.9 --run-dir run")));
  expect_success(tandem(folder.path(), split("train --env CartPole-v1 --total-steps 1024 --quiet --resume auto "
                                             "--shards auto --run-dir run")));
  EXPECT_THAT(read_text(folder / "run/summary.json"),
              AllOf(HasSubstr("\"seed\":7"), HasSubstr("\"resumed\":\"exactly\""), HasSubstr("\"env_steps\":1024")));
  EXPECT_THAT(read_text(folder / "run/config.yaml"), AllOf(HasSubstr("gamma: 0.9"), HasSubstr("# --seed")));
}

TEST(BadCheckpointFolderTest, ARunWhoseCheckpointsAreGoneIsNotBegunAnew) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  const std::string metrics = read_text(run / "metrics.jsonl");
  fs::remove_all(run / "checkpoints");
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt,
                 {"summary.json", "no checkpoint", "erase", "back"});
  fs::remove(run / "summary.json");
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt, {"metrics.jsonl"});
  EXPECT_EQ(read_text(run / "metrics.jsonl"), metrics);
}

TEST(BadCheckpointFolderTest, LinesOfMetricsThatAreLostAreSaid) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  const std::string metrics = read_text(run / "metrics.jsonl");
  write_text(run / "metrics.jsonl", metrics.substr(0, metrics.find('\n') + 1));
  EXPECT_THAT(expect_success(tandem(folder.path(), split("resume run --total-steps 1024"))),
              AllOf(HasSubstr("metrics.jsonl ends with update 1"), HasSubstr("after update 3")));
  EXPECT_THAT(expect_success(tandem(folder.path(), split("resume run --total-steps 1280"))),
              Not(HasSubstr("metrics.jsonl ends with")))
      << "its last line is there now";
}

TEST(BadCheckpointFolderTest, DamagedMetricsAreNamed) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  write_text(run / "metrics.jsonl", "{\"updates\":1,\"env_steps\":256}\nnot json\n{\"updates\":3}\n");
  expect_refusal(tandem(folder.path(), split("plot run -o curve.png")), kRunFailed, {"metrics.jsonl:2"});
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kRunFailed, {"metrics.jsonl:2"});
  expect_usable(checkpoint_of(run, 3));
}

}  // namespace
}  // namespace tandem::process_test
