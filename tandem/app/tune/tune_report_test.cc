#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/tune/tuning.h"
#include "tandem/base/json_reader.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

RunSample run_at(double env_steps_per_s) {
  return {.env_steps_per_s = env_steps_per_s, .sample = 0.3, .learn = 0.6, .sync = 0.05, .state_sha256 = "a"};
}

TuneFindings findings() {
  TuneFindings found{.work = "ppo on CartPole-v1", .cores = 2, .env_steps = 24'576, .rounds = 2};
  found.layouts = {
      {.layout = {}, .runs = {run_at(100'000), run_at(110'000)}},
      {.layout = {{{"devices", "cpu:2"}}, Learning::kSameBits}, .runs = {run_at(200'000), run_at(165'000)}},
      {.layout = {{{"shards", "4"}}, Learning::kOther}, .runs = {run_at(90'000)}},
      {.layout = {{{"shards", "8"}}, Learning::kOther}, .runs = {}}};
  found.chosen = 1;
  found.output = "tuned.yaml";
  return found;
}

TEST(TuneReportTest, TheTableHasWhatWasTriedFastestFirstAndTheChosenOneMarked) {
  const std::string text = to_text(findings(), "tandem");
  EXPECT_THAT(text, HasSubstr("ppo on CartPole-v1, on 2 cores; runs of 24.6k steps\n"));
  const std::size_t best = text.find(
      "\n* devices cpu:2  same bits         182k      165k to 200k    1.75     30%     60%"
      "      5%     2\n");
  const std::size_t given = text.find("\n  as given       -                 105k      100k to 110k    1.00 ");
  const std::size_t slow = text.find("\n  shards 4       other            90.0k    90.0k to 90.0k    0.90 ");
  EXPECT_LT(best, given) << text;
  EXPECT_LT(given, slow) << text;
  EXPECT_NE(slow, std::string::npos) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("chosen: devices cpu:2, 1.75 times as fast as given (median of 2 rounds)"),
                          HasSubstr("same bits: learns as the given one"), HasSubstr("other: another run"),
                          HasSubstr("written: tuned.yaml; train with it: tandem train tuned.yaml"),
                          Not(HasSubstr("shards 8"))));
}

TEST(TuneReportTest, WhatWasMeasuredIsShownWhenItWasStoppedOrTheGivenOneStays) {
  TuneFindings found = findings();
  found.chosen.reset();
  found.output.clear();
  EXPECT_THAT(
      to_text(found, "tandem"),
      AllOf(HasSubstr("  devices cpu:2"), HasSubstr("stopped before all was measured"), Not(HasSubstr("written:"))));
  EXPECT_TRUE(read_json(to_json(found)).at("chosen").is_null());
  found.chosen = 0;
  EXPECT_THAT(to_text(found, "tandem"), AllOf(HasSubstr("\n* as given"), HasSubstr("chosen: as given")));
  found.layouts = {{}};
  EXPECT_THAT(to_text(found, "tandem"), HasSubstr("layout"));  // before the first run was over
}

TEST(TuneReportTest, JsonHasTheSettingsOfEachLayoutAndItsFigures) {
  const JsonValue json = read_json(to_json(findings()));
  EXPECT_EQ(json.at("chosen").as_int64(), 1);
  EXPECT_EQ(json.at("file").as_string(), "tuned.yaml");
  const JsonValue& best = json.at("layouts").as_array().at(1);
  EXPECT_EQ(best.at("settings").at("devices").as_string(), "cpu:2");
  EXPECT_EQ(best.at("learns").as_string(), "same bits");
  EXPECT_EQ(best.at("times_given").as_double(), 1.75);
  EXPECT_EQ(best.at("env_steps_per_s").at("lowest").as_double(), 165'000);
  EXPECT_EQ(best.at("learn_share").as_double(), 0.6);
  EXPECT_EQ(json.at("layouts").as_array().at(3).at("runs").as_int64(), 0);
}

TEST(TuneReportTest, TheFileSaysHowItCameAbout) {
  TuneFindings found = findings();
  EXPECT_THAT(
      to_config_file(found, "# The settings of this run.\nalgo: ppo\n"),
      AllOf(StartsWith("# Written by tandem tune: ppo on CartPole-v1, on 2 cores.\n# devices cpu:2: 1.75 times "),
            HasSubstr("\n# What it learns, against those: same bits.\nalgo: ppo\n"),
            Not(HasSubstr("The settings of this run"))));
  found.chosen = 0;
  EXPECT_THAT(to_config_file(found, "# title\nalgo: ppo\n"),
              HasSubstr("\n# No layout was faster than the given one by more than 3%.\nalgo: ppo\n"));
}

}  // namespace
}  // namespace tandem::app
