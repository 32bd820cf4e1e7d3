// Whatever the schedule, all workers come to an end within their deadlines, and each gradient is accounted for:
// offered = applied + dropped + in flight at a death.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/concurrency/worker.h"
#include "tandem/shm/testing/process_world.h"
#include "tandem/sync/variables/variable_link.h"
#include "tests/schedules/schedule.h"

namespace tandem::schedules {
namespace {

namespace fs = std::filesystem;

// Of a thread: it goes without a word.
void end_connection(const Account& /*so_far*/, sync::VariableLink& link,
                    const std::function<void(const Limits&)>& last) {
  try {
    last(within(std::chrono::milliseconds(1)));
  } catch (const DeadlineExceeded&) {  // NOLINT(bugprone-empty-catch): it waits for others, and dies
  }
  link.abort("its schedule says so");
}

Account live_on_a_thread(const Schedule& schedule, int worker, const std::shared_ptr<sync::SyncVariables>& variables) {
  const Worker& plan = schedule.workers[static_cast<std::size_t>(worker)];
  std::this_thread::sleep_for(std::chrono::milliseconds(plan.comes_after_ms));
  Account account;
  for (const Life& life : plan.lives) {
    account += play(
        schedule, worker, life, [&](sync::Replica& replica) { return sync::link_within(variables, replica); },
        end_connection);
  }
  return account;
}

void expect_accounted_for_on_threads(std::uint64_t number) {
  SCOPED_TRACE(concat("schedule ", number));
  const Schedule schedule = draw(number);
  const std::shared_ptr<sync::SyncVariables> variables = make_variables(schedule);
  std::vector<Account> accounts(schedule.workers.size());
  Failures failures;
  std::vector<std::jthread> threads;
  for (int worker = 0; worker < std::ssize(schedule.workers); ++worker) {
    threads.emplace_back([&, worker] {
      try {
        accounts[static_cast<std::size_t>(worker)] = live_on_a_thread(schedule, worker, variables);
      } catch (...) {
        failures.add(concat("worker ", worker), std::current_exception());
      }
    });
  }
  threads.clear();
  ASSERT_NO_THROW(failures.rethrow());
  variables->await_departed(within(std::chrono::seconds(60)));
  EXPECT_EQ(faults(schedule, accounts, variables->take_account().replicas, values_of(*variables, schedule)), "");
}

// --- processes -------------------------------------------------------------------------------------------------------

void await(const fs::path& file) {
  const Deadline deadline = Deadline::after(std::chrono::minutes(2));
  while (!fs::exists(file)) {
    if (deadline.expired()) throw RunError(concat("there is no ", file.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Rank 0 of the processes owns the variables, and no worker; it ends when the test says so.
void own(const Schedule& schedule, const fs::path& folder, const shm::Voice& voice) {
  const std::shared_ptr<sync::SyncVariables> variables = make_variables(schedule);
  std::vector<std::string> names;
  for (std::size_t worker = 0; worker < schedule.workers.size(); ++worker) names.push_back(concat("worker ", worker));
  sync::VariableServer server(net::Reach::kThisHost, variables, names);
  write_file(folder / "contact", server.contact());
  await(folder / "done");
  variables->await_departed(within(std::chrono::seconds(60)));
  for (const sync::GradientTotals& each : variables->take_account().replicas)
    voice.say(concat(each.offered, " ", each.applied, " ", each.dropped, " "));
  for (const double each : values_of(*variables, schedule)) voice.say(concat(each, " "));
}

void say(const Account& account, const shm::Voice& voice) {
  voice.say(concat(account.offered, " ", account.dropped, " ", account.uncertain, " ", account.deaths, " "));
}

[[nodiscard]] bool hear(std::istream& in, Account& account) {
  return static_cast<bool>(in >> account.offered >> account.dropped >> account.uncertain >> account.deaths);
}

// A life in a process of its own, whose death is a SIGKILL with its connection open.
void live(const Schedule& schedule, int worker, const Life& life, const std::string& contact, const shm::Voice& voice) {
  const auto connect = [&](sync::Replica& replica) {
    return sync::link_across({.contact = contact, .member = 0, .name = "the owner"}, replica,
                             within(std::chrono::seconds(60)));
  };
  const auto be_killed = [&voice](const Account& so_far, sync::VariableLink& /*link*/,
                                  const std::function<void(const Limits&)>& last) {
    say(so_far, voice);  // of the last gradient nobody will know
    const std::jthread killer([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::kill(::getpid(), SIGKILL);
    });
    last(within(std::chrono::seconds(60)));
    ::kill(::getpid(), SIGKILL);
  };
  say(play(schedule, worker, life, connect, be_killed), voice);
}

void work(const Schedule& schedule, int worker, const fs::path& folder, const shm::Voice& voice) {
  await(folder / "contact");
  const std::string contact = read_file(folder / "contact");
  const Worker& plan = schedule.workers[static_cast<std::size_t>(worker)];
  std::this_thread::sleep_for(std::chrono::milliseconds(plan.comes_after_ms));
  Account all;
  for (const Life& life : plan.lives) {
    shm::ProcessWorld process(1,
                              [&](int /*rank*/, const shm::Voice& its) { live(schedule, worker, life, contact, its); });
    const std::string said = process.outcome(0);
    std::istringstream in(said);
    Account account;
    std::string end;
    if (!hear(in, account)) throw RunError(said);
    std::getline(in >> std::ws, end);
    if (end != (life.end == End::kLeave ? "" : "signal 9")) throw RunError(concat("a life ended with '", end, "'"));
    all += account;
  }
  say(all, voice);
}

void expect_accounted_for_as_processes(std::uint64_t number) {
  SCOPED_TRACE(concat("schedule ", number));
  const Schedule schedule = draw(number);
  const TemporaryFolder folder;
  shm::ProcessWorld world(static_cast<int>(schedule.workers.size()) + 1, [&](int rank, const shm::Voice& voice) {
    rank == 0 ? own(schedule, folder.path(), voice) : work(schedule, rank - 1, folder.path(), voice);
  });
  std::vector<Account> accounts;
  for (std::size_t worker = 0; worker < schedule.workers.size(); ++worker) {
    const std::string said = world.outcome(static_cast<int>(worker) + 1);
    std::istringstream in(said);
    Account& account = accounts.emplace_back();
    EXPECT_TRUE(hear(in, account)) << "worker " << worker << ": " << said;
  }
  write_file(folder / "done", "");
  const std::string said = world.outcome(0);
  std::istringstream in(said);
  std::vector<sync::GradientTotals> totals(accounts.size());
  std::vector<double> values(accounts.size());
  for (sync::GradientTotals& each : totals) in >> each.offered >> each.applied >> each.dropped;
  for (double& each : values) in >> each;
  ASSERT_TRUE(in) << said;
  EXPECT_EQ(faults(schedule, accounts, totals, values), "");
}

// The first of the 200 are played as processes, the others on threads.
constexpr std::uint64_t kSchedules = 200, kAsProcesses = 50;

TEST(SchedulesTest, WorkersAsProcessesEndAndAddUp) {
  for (std::uint64_t number = 0; number < kAsProcesses; ++number) expect_accounted_for_as_processes(number);
}

TEST(SchedulesTest, WorkersOnThreadsEndAndAddUp) {
  for (std::uint64_t number = kAsProcesses; number < kSchedules; ++number) expect_accounted_for_on_threads(number);
}

}  // namespace
}  // namespace tandem::schedules
