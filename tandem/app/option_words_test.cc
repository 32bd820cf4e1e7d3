// The words of text options are those that the library takes.
#include <gtest/gtest.h>

#include <algorithm>

#include "tandem/app/testing/native_algorithms.h"
#include "tandem/app/train/build_run.h"
#include "tandem/base/error.h"
#include "tandem/rl/policy/action_family.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/policy_options.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::app {
namespace {

// Assigns every word that the option's `expected` text lists; `take` throws when the library does not know it.
template <typename Take>
void each_word_is_taken(const char* key, const std::vector<std::string>& words, Take take) {
  for (const std::string& word : words) {
    TrainOptions options;
    OptionTable table = option_table(options);
    ASSERT_TRUE(table.assign({{key, RawValue::of_text(word), {Layer::kFlag, "--set"}}}).empty()) << key << " " << word;
    EXPECT_NO_THROW(take(options.policy)) << key << " " << word;
  }
}

TEST(OptionWordsTest, TheLibraryKnowsAllOfThem) {
  each_word_is_taken("policy.activation", {"tanh", "relu", "silu", "gelu", "elu"},
                     [](const PolicySettings& policy) { (void)rl::activation(policy.activation); });
  each_word_is_taken("policy.trunks", {"separate", "shared"},
                     [](const PolicySettings& policy) { (void)rl::trunks(policy.trunks); });
  each_word_is_taken("policy.head",
                     {"categorical", "multi_categorical", "normal", "squashed_normal", "state_dependent_noise"},
                     [](const PolicySettings& policy) { (void)rl::action_family(*policy.head); });
}

TEST(OptionWordsTest, InstructionsAreCalledAsTheLibraryCallsThem) {
  for (const auto& [set, word] : kChoices<InstructionSet>) EXPECT_EQ(word, name_of(set));
}

// Of two options that exclude each other a run records the one that is in force. So each can be absent: a record of
// both could not be read again.
TEST(OptionWordsTest, OptionsThatExcludeEachOtherCanBeAbsent) {
  TrainOptions options;
  const OptionTable table = option_table(options);
  int rivals = 0;
  for (const auto& option : table.options()) {
    // A count of each rank, which is not recorded, is no such rival.
    const auto excludes = [&](const std::string& key) { return table.at(key).total() != option->key(); };
    if (!std::ranges::any_of(table.rivals_of(*option), excludes)) continue;
    ++rivals;
    EXPECT_TRUE(option->expected().ends_with(", or " + option->absent_word())) << option->key();
  }
  EXPECT_GE(rivals, 6);
}

TEST(OptionWordsTest, DefaultsAreThoseOfTheLibrary) {
  const TrainOptions options;
  const rl::MlpPolicyOptions policy;
  EXPECT_EQ(options.policy.hidden, policy.hidden);
  EXPECT_EQ(rl::activation(options.policy.activation), policy.activation);
  EXPECT_EQ(rl::trunks(options.policy.trunks), policy.trunks);
  EXPECT_EQ(options.policy.log_std_init, policy.log_std_init);
  EXPECT_EQ(options.policy.hidden_gain, policy.hidden_gain);
  EXPECT_EQ(options.policy.policy_gain, policy.policy_gain);
  EXPECT_EQ(options.policy.value_gain, policy.value_gain);
  EXPECT_EQ(options.policy.recurrent_size, rl::RecurrentPolicyOptions().size);
  EXPECT_EQ(options.policy.max_seq_len, rl::SequenceOptions().length);
  EXPECT_EQ(options.policy.burn_in, rl::SequenceOptions().burn_in);
  EXPECT_EQ(options.policy.sde_sample_freq, rl::ActorOptions().noise_hold_steps);
}

}  // namespace
}  // namespace tandem::app
