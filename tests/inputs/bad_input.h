// tests/inputs/bad_input.h: the law that all bad input obeys, and a trained run to spoil.
//
// Bad input ends in exit code 2 (the user can fix it) or 3 (the run failed), within a time limit, with a message on
// standard error that names the cause. Never in a signal, a stack trace, or a checkpoint that was there and is gone.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/testing/temporary_folder.h"
#include "tests/support/child.h"

namespace tandem::process_test {

/// A test is called as its parameter is.
inline constexpr auto name_of = [](const auto& tested) -> std::string { return tested.param.name; };

inline constexpr int kUserCanFixIt = 2, kRunFailed = 3;

/// How `tandem ARGUMENTS...` ends in `folder`. "@plugins" in an argument becomes the folder of the test plugins.
[[nodiscard]] Command tandem(const std::filesystem::path& folder, std::vector<std::string> arguments);

/// Checks, with gtest's EXPECT, that it ends with `code` and a message that holds each of `words`.
void expect_refusal(const Command& command, int code, const std::vector<std::string>& words);
/// Likewise that it ends with 0. Returns its standard output.
std::string expect_success(const Command& command);

/// "tandem ARGUMENTS..." split at blanks.
[[nodiscard]] std::vector<std::string> split(std::string_view arguments);

void write_text(const std::filesystem::path& file, std::string_view text);
[[nodiscard]] std::string read_text(const std::filesystem::path& file);

/// A run of CartPole-v1 with whole checkpoints after its updates 1, 2 and 3, trained once a process.
[[nodiscard]] const std::filesystem::path& trained_run();
/// A copy of it as `folder`/run, to be spoilt.
std::filesystem::path copy_of_run(const std::filesystem::path& folder);
[[nodiscard]] std::filesystem::path checkpoint_of(const std::filesystem::path& run, int updates);

/// Checks that `tandem eval` can use the checkpoint: all of its parts are whole.
void expect_usable(const std::filesystem::path& checkpoint);

}  // namespace tandem::process_test
