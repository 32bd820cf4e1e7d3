#include "survivors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  try {
    return read_file(file);
  } catch (const std::exception&) {
    return "";  // it has ended meanwhile
  }
}

}  // namespace

Recipe small_dd_ppo(std::int64_t steps) {
  return with_steps(with_setting(dd_ppo(), "normalize.observations=true"), steps);
}

Recipe solving_dd_ppo(std::int64_t steps) {
  return {"CartPole",
          {"--algo", "dd_ppo", "--env", "CartPole-v1", "--seed", "3", "--shards", "4", "--num-envs", "20",
           "--minibatch-size", "200"},
          steps,
          2000};
}

Command training(const Recipe& recipe, const fs::path& folder) {
  Command command = train(recipe, folder, "cpu");
  std::ranges::replace(command.arguments, "checkpoint.every_updates=2", "checkpoint.every_updates=200");
  return command;
}

Command with_survivors(const Recipe& recipe, const fs::path& folder, const std::string& on_death,
                       const std::vector<std::string>& more) {
  Command command = training(recipe, folder);
  command.arguments.insert(command.arguments.end(), {"--survivors", "take_over"});
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  std::vector<std::string> flags{"--on-death", on_death};
  if (on_death == "replace") flags.insert(flags.end(), {"--max-restarts", "100"});
  return as_ranks(kSurvivingRanks, command, flags);
}

std::string undisturbed_state(const Recipe& recipe) {
  const TemporaryFolder scratch;
  expect_success(training(recipe, scratch / "run"));
  return state_of(scratch / "run");
}

pid_t process_of(const Child& launcher, int rank) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec != std::errc()) continue;
    if (text_of(entry.path() / "status").find(concat("\nPPid:\t", launcher.id(), "\n")) == std::string::npos) continue;
    const std::string variables = text_of(entry.path() / "environ");
    if (concat(std::string(1, '\0'), variables)
            .find(concat(std::string(1, '\0'), "RANK=", rank, std::string(1, '\0'))) != std::string::npos)
      return process;
  }
  return 0;
}

bool signal_rank(const Child& launcher, int rank, int signal) {
  const pid_t process = process_of(launcher, rank);
  return process != 0 && ::kill(process, signal) == 0;
}

bool kill_rank(const Child& launcher, int rank) { return signal_rank(launcher, rank, SIGKILL); }

void expect_complete(const Ended& ended, const fs::path& folder, const std::string& state, std::size_t replicas) {
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.out << ended.err;
  EXPECT_EQ(state_of(folder), state);
  EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), replicas);
  expect_line_for_every_update(folder);
}

void expect_undisturbed(const Ended& ended, const fs::path& folder, const std::string& state) {
  expect_complete(ended, folder, state, kSurvivingRanks);
  EXPECT_EQ(count_in(log_of(folder), "is lost"), 0) << log_of(folder);
}

// "... the run goes on with rank(s) 0, 2, 3 of 4, which ..."
std::vector<int> newest_members(const fs::path& folder) {
  const std::string log = log_of(folder), words = "the run goes on with rank(s) ";
  const std::size_t at = log.rfind(words);
  if (at == std::string::npos) return {};
  std::istringstream names(log.substr(at + words.size(), log.find(" of ", at) - at - words.size()));
  std::vector<int> members;
  for (std::string name; std::getline(names, name, ',');) members.push_back(std::stoi(name));
  return members;
}

std::string log_of(const fs::path& folder) { return text_of(folder / "log.txt"); }

int count_in(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::int64_t went_on_after(const fs::path& folder) {
  const std::string text = log_of(folder), words = "goes on after update ";
  const std::size_t at = text.rfind(words);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + words.size()));
}

bool says(Child& launcher, const fs::path& folder, const std::string& part, int times) {
  const Deadline deadline = Deadline::after(kPatience);
  while (count_in(log_of(folder), part) < times) {
    if (!launcher.is_running() || deadline.expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace tandem::process_test
