#include "bad_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tandem/base/text.h"

namespace tandem::process_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Command tandem(const fs::path& folder, std::vector<std::string> arguments) {
  constexpr std::string_view kPlugins = "@plugins";
  for (std::string& argument : arguments) {
    const std::size_t at = argument.find(kPlugins);
    if (at != std::string::npos) argument.replace(at, kPlugins.size(), TEST_PLUGINS);
  }
  return {.program = TANDEM_PROGRAM, .arguments = std::move(arguments), .folder = folder};
}

void expect_refusal(const Command& command, int code, const std::vector<std::string>& words) {
  const Ended ended = run(command);
  EXPECT_EQ(ended.how(), concat("exit code ", code)) << ended.err;
  EXPECT_THAT(ended.err, StartsWith("tandem: "));
  EXPECT_THAT(ended.err, Not(HasSubstr("frame #"))) << "a stack is for defects of tandem";
  for (const std::string& word : words) EXPECT_THAT(ended.err, HasSubstr(word));
}

std::string expect_success(const Command& command) {
  Ended ended = run(command);
  EXPECT_EQ(ended.how(), "exit code 0") << ended.err;
  return std::move(ended.out);
}

std::vector<std::string> split(std::string_view arguments) {
  std::istringstream stream{std::string(arguments)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void write_text(const fs::path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  ASSERT_TRUE(out.flush()) << file;
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const fs::path& trained_run() {
  static const TemporaryFolder folder;
  static const fs::path run = [] {
    expect_success(tandem(folder.path(), split("train --env CartPole-v1 --total-steps 768 --run-dir run --quiet "
                                               "--set checkpoint.every_updates=1")));
    return folder / "run";
  }();
  return run;
}

fs::path copy_of_run(const fs::path& folder) {
  fs::copy(trained_run(), folder / "run", fs::copy_options::recursive);
  return folder / "run";
}

fs::path checkpoint_of(const fs::path& run, int updates) {
  return run / "checkpoints" / concat("u00000000000", updates);
}

void expect_usable(const fs::path& checkpoint) {
  const std::string played =
      expect_success(tandem(checkpoint.parent_path(), {"eval", checkpoint.string(), "--episodes", "1", "--json"}));
  EXPECT_THAT(played, HasSubstr("\"return_mean\":"));
}

}  // namespace tandem::process_test
