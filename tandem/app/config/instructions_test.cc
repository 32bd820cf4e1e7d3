// With which vector instructions a run computes: by its configuration, and by what the processors have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

// As `tandem resume` makes it.
Configuration resumed(const std::filesystem::path& recorded, const std::vector<Setting>& flags,
                      const Surroundings& surroundings) {
  return app::configure({.flags = flags, .recorded = recorded, .is_resume = true}, surroundings);
}

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InstructionsTest : public ::testing::Test {
 protected:
  static Setting flag(std::string key, std::string text) {
    return {std::move(key), RawValue::of_text(std::move(text)), {Layer::kFlag, "--set"}};
  }
  std::filesystem::path file(const std::string& text) {
    write_file(folder / "train.yaml", text);
    return folder / "train.yaml";
  }
  [[nodiscard]] Surroundings surroundings(InstructionSet most) const {
    Surroundings all{[](const std::string&) { return 1; }, {}, folder.path()};
    all.instructions = most;
    return all;
  }
  std::vector<std::string> faults(const std::string& text, const Surroundings& surroundings) {
    try {
      (void)configure({file(text)}, surroundings);
    } catch (const ConfigError& error) {
      return error.faults();
    }
    return {};
  }

  const TemporaryFolder folder;
};

TEST_F(InstructionsTest, ARunKeepsThoseThatItBeganWith) {
  const Surroundings old = surroundings(InstructionSet::kAvx2), young = surroundings(InstructionSet::kAvx512);
  const Configuration began = configure({file("env: Mine-v0\n")}, old);
  EXPECT_THAT(began.yaml, HasSubstr("instructions: avx2"));
  const std::filesystem::path config = folder / "config.yaml";
  write_file(config, began.yaml);
  EXPECT_EQ(resumed(config, {}, young).options.instructions, InstructionSet::kAvx2);
  EXPECT_EQ(resumed(config, {flag("instructions", "avx512")}, young).options.instructions, InstructionSet::kAvx512);
  const auto again = [&](const char* word) {
    return configure({{}, {flag("env", "Mine-v0"), flag("instructions", word)}, {}, config}, young);
  };
  EXPECT_EQ(again("auto").options.instructions, InstructionSet::kAvx2) << "those of the run";
  EXPECT_EQ(again("avx512").options.instructions, InstructionSet::kAvx512);
}

TEST_F(InstructionsTest, ThatNotAllRanksHaveAreAFault) {
  const Surroundings old = surroundings(InstructionSet::kPortable);
  EXPECT_EQ(configure({file("env: Mine-v0\n")}, old).options.instructions, InstructionSet::kPortable);
  EXPECT_THAT(faults("env: Mine-v0\ninstructions: avx2\n", old),
              ElementsAre(AllOf(HasSubstr("instructions = avx2"), HasSubstr("portable at most"),
                                HasSubstr("instructions: portable works here"))));
  EXPECT_THAT(faults("env: Mine-v0\ninstructions: sse\n", old), ElementsAre(HasSubstr("instructions = sse")));
}

}  // namespace
}  // namespace tandem::app
