#include "tandem/app/config/policy_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/config/configuration.h"
#include "tandem/app/config/yaml_text.h"
#include "tandem/app/testing/native_algorithms.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Sizes = std::vector<std::int64_t>;

class PolicyKeysTest : public ::testing::Test {
 protected:
  static Setting flag(std::string key, std::string text) {
    return {std::move(key), RawValue::of_text(std::move(text)), {Layer::kFlag, "--set"}};
  }
  Configuration configure(const std::string& text, std::vector<Setting> flags = {}) {
    write_file(folder / "train.yaml", "env: Hunt-v0\n" + text);
    return app::configure({folder / "train.yaml", std::move(flags)}, surroundings);
  }
  std::string fault(const std::string& text, std::vector<Setting> flags = {}) {
    try {
      (void)configure(text, std::move(flags));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no fault";
  }

  TemporaryFolder folder;
  const Surroundings surroundings{[](const std::string&) { return 1; }, {}, folder.path()};
};

TEST_F(PolicyKeysTest, APolicyHasItsOwnValuesInPlaceOfThoseOfAll) {
  const TrainOptions options = configure(
                                   "policy: {hidden: [8], activation: relu}\n"
                                   "policies:\n"
                                   "  hunter: {hidden: [128, 128], head: squashed_normal}\n"
                                   "  prey.hidden: 16\n"
                                   "policies.prey.log_std_init: -1\n",
                                   {flag("policies.prey.hidden", "32"), flag("policy.trunks", "shared")})
                                   .options;
  const PolicySettings hunter = settings_of_policy(options, "hunter"), prey = settings_of_policy(options, "prey"),
                       other = settings_of_policy(options, "other");
  EXPECT_EQ(hunter.hidden, (Sizes{128, 128}));
  EXPECT_EQ(hunter.head, "squashed_normal");
  EXPECT_EQ(prey.hidden, Sizes{32}) << "the flag prevails";
  EXPECT_EQ(prey.head, std::nullopt);
  EXPECT_EQ(prey.log_std_init, -1);
  EXPECT_EQ(other.hidden, Sizes{8});
  for (const PolicySettings& each : {hunter, prey, other}) {
    EXPECT_EQ(each.activation, "relu");
    EXPECT_EQ(each.trunks, "shared");
  }
}

TEST_F(PolicyKeysTest, ARunRecordsThemAndGoesOnWithThemAlone) {
  const Configuration first = configure(
      "policies:\n  hunter: {hidden: [128, 128], recurrent: gru}\n  prey: {torso: residual, channels: [4]}\n"
      "policy.max_seq_len: 16\n");
  EXPECT_THAT(first.yaml, HasSubstr("\npolicies:\n  hunter.hidden: [128, 128]"));
  EXPECT_THAT(first.yaml, HasSubstr("max_seq_len: 16")) << "one policy remembers";
  const TrainOptions again = read_recorded(first.yaml, "config.yaml");
  EXPECT_EQ(again.policies, first.options.policies);
  EXPECT_EQ(again.policy.max_seq_len, 16);

  write_file(folder / "recorded.yaml", first.yaml);
  const auto go_on = [&](std::vector<Setting> flags, bool is_resume) {
    try {
      const ConfigSources sources{
          .flags = std::move(flags), .recorded = folder / "recorded.yaml", .is_resume = is_resume};
      EXPECT_EQ(app::configure(sources, surroundings).options.policies, first.options.policies);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no fault");
  };
  EXPECT_EQ(go_on({}, true), "no fault");
  EXPECT_EQ(go_on({flag("env", "Hunt-v0"), flag("policies.hunter.hidden", "128,128")}, false), "no fault");
  EXPECT_THAT(go_on({flag("policies.hunter.hidden", "64")}, true), HasSubstr("cannot change when it goes on"));
  EXPECT_THAT(go_on({flag("policies.prey.hidden", "64")}, true), HasSubstr("cannot change when it goes on"));
  EXPECT_THAT(go_on({flag("policies.hunter.hidden", "64")}, false), HasSubstr("the run began with [128, 128]"));
  EXPECT_THAT(go_on({flag("policies.prey.hidden", "64")}, false), HasSubstr("began with no value of its own"));

  TrainOptions changed = first.options;
  changed.policies["hunter"].erase("recurrent");
  changed.policies["prey"]["hidden"] = "[3]";
  EXPECT_THAT(changed_since(first.yaml, changed, "config.yaml", "the checkpoint"),
              ElementsAre(HasSubstr("policies.prey.hidden = [3] (config.yaml): the checkpoint was made with no value"),
                          HasSubstr("policies.hunter.recurrent (config.yaml): the checkpoint was made with gru")));
}

TEST_F(PolicyKeysTest, WhatIsWrongNamesTheKeyAndWhatWouldWork) {
  EXPECT_THAT(fault("policies: {hunter: {hidden: [0]}}"),
              HasSubstr("policies.hunter.hidden = [0] (" + (folder / "train.yaml").string() +
                        ":2): expected a list, each an integer from 1 to 65536"));
  EXPECT_THAT(fault("policies: {hunter: {hiden: [8]}}"), HasSubstr("the nearest one is hidden"));
  EXPECT_THAT(fault("policies: {hunter: {quark: [8]}}"), HasSubstr("there are hidden, activation"));
  EXPECT_THAT(fault("policies: {hunter: 8}"), HasSubstr("as in policies.hunter.hidden"));
  EXPECT_THAT(fault("policies: {Hunter: {hidden: 8}}"), HasSubstr("lower-case letters"));
  EXPECT_THAT(fault("policies: 8"), HasSubstr("as in policies.hunter.hidden"));
  EXPECT_THAT(fault("", {flag("policies.hunter.max_seq_len", "8")}), HasSubstr("set policy.max_seq_len"));
  EXPECT_THAT(fault("policies: {hunter: {channels: [8]}}"),
              HasSubstr("has no effect without policies.hunter.torso: residual"));
  EXPECT_EQ(fault("policies: {hunter: {channels: [8], torso: residual}}"), "no fault");
  EXPECT_EQ(fault("policies: {hunter: {channels: [8]}}\npolicy.torso: residual"), "no fault");
  TrainOptions options;
  EXPECT_THAT(option_listing(option_table(options)), HasSubstr("policies.NAME.KEY"));
}

// Nothing of that size is ever allocated: the sizes are multiplied, and compared with the machine's memory.
TEST_F(PolicyKeysTest, LayersThatNoMemoryHoldsAreRefusedByArithmetic) {
  const std::string wide = "[65536, 65536, 65536, 65536, 65536, 65536, 65536, 65536, 65536]";
  EXPECT_THAT(fault("policy.hidden: " + wide), HasSubstr("parameters or more"));
  EXPECT_THAT(fault("policies.prey.hidden: " + wide), HasSubstr("policies.prey.hidden"));
  EXPECT_THAT(fault("policy: {recurrent: lstm, hidden: " + wide + "}"), HasSubstr("GB of memory"));
  EXPECT_EQ(fault("policy: {hidden: [4096, 4096], recurrent: gru, recurrent_size: 1024}"), "no fault");
}

}  // namespace
}  // namespace tandem::app
