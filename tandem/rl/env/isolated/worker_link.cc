#include "tandem/rl/env/isolated/worker_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tandem/base/text.h"
#include "tandem/rl/env/isolated/bell.h"

namespace tandem::rl {
namespace {

// The socket of a process that dies ends a moment before the process has, so it is given time to tell how.
constexpr std::chrono::seconds kPatienceForTheDying{5};

const char* words_for(WorkerCommand command) {
  switch (command) {
    case WorkerCommand::kBegin:
      return "while it made its environments";
    case WorkerCommand::kReset:
      return "in a reset";
    case WorkerCommand::kStep:
      return "in a step";
    case WorkerCommand::kSave:
    case WorkerCommand::kTake:
      return "while its environments were saved";
    case WorkerCommand::kLoad:
    case WorkerCommand::kGive:
      return "while its environments were loaded";
    case WorkerCommand::kProgress:
    case WorkerCommand::kAnswer:
      break;
  }
  return "between two steps";
}

}  // namespace

WorkerLink::Pair WorkerLink::connected() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw RunError(concat("the system gives no socket for a worker process of environments: ",
                          std::generic_category().message(errno), "; see ulimit -n"));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

WorkerLink::WorkerLink(const RegionLayout& layout, const IsolationOptions& options, const WorkerTask& task,
                       RestartBudget* budget)
    : layout_(layout),
      options_(options),
      budget_(budget),
      region_(layout),
      header_(region_.header()),
      sockets_(connected()),
      process_({.command = options.command,
                .socket = sockets_.other.get(),
                .memory = region_.descriptor(),
                .without_variables = options.without_variables,
                .most_memory = options.most_memory,
                .tell = options.tell}) {
  sockets_.other.close();  // ours would hide the worker's end
  const std::string json = json_of(task);
  give(std::as_bytes(std::span(json)));
  can_save_ = call(WorkerCommand::kBegin) == 1;
  has_begun_ = true;
}

void WorkerLink::set_progress(double share) {
  header_.progress = share;
  (void)call(WorkerCommand::kProgress);
}

std::uint64_t WorkerLink::call(WorkerCommand command, std::uint64_t argument) {
  WorkerCommand asked = command;
  for (;;) {
    header_.command = static_cast<std::uint32_t>(asked);
    header_.argument = argument;
    ring(header_.request, ++requests_, header_.worker_sleeps, sockets_.own.get());
    wait(command);
    // Each is read once: the worker may change them at any time.
    const auto outcome = static_cast<const volatile std::uint32_t&>(header_.outcome);
    const auto value = static_cast<const volatile std::uint64_t&>(header_.value);
    switch (static_cast<WorkerOutcome>(outcome)) {
      case WorkerOutcome::kDone:
        return value;
      case WorkerOutcome::kFailed:
        throw EnvError(text(value));
      case WorkerOutcome::kRefused:
        throw ConfigError(text(value));
      case WorkerOutcome::kUnreadable:
        throw CheckpointError(text(value));
      case WorkerOutcome::kAsks:
        argument = budget_ != nullptr && budget_->take(text(value)) ? 1 : 0;
        asked = WorkerCommand::kAnswer;
        continue;
    }
    fail(concat("answered with the unknown word ", outcome));
  }
}

void WorkerLink::wait(WorkerCommand command) {
  const BellWait wait{.number = header_.done,
                      .value = requests_,
                      .own_sleeps = header_.learner_sleeps,
                      .socket = sockets_.own.get(),
                      .spin = options_.spin};
  const Clock::duration allowed = options_.deadline + (has_begun_ ? Clock::duration{} : kStartPatience);
  switch (wait.until(Deadline::after(allowed))) {
    case BellOutcome::kRung:
      return;
    case BellOutcome::kGone:
      lose(kPatienceForTheDying, words_for(command));
    case BellOutcome::kLate:
      break;
  }
  const double seconds = std::chrono::duration<double>(allowed).count();
  lose({}, concat(words_for(command), ", since it did not answer for ", seconds, " s (env_deadline_seconds)"));
}

std::string WorkerLink::text(std::uint64_t bytes) const {
  std::string text(std::min<std::uint64_t>(bytes, kMostAnswerText), '\0');
  std::memcpy(text.data(), region_.at(layout_.table.window), text.size());
  return printable(text);
}

void WorkerLink::give(std::span<const std::byte> input) {
  while (!input.empty()) {
    const std::span<const std::byte> piece = input.first(std::min(input.size(), kWindowBytes));
    std::memcpy(region_.at(layout_.table.window), piece.data(), piece.size());
    (void)call(WorkerCommand::kGive, piece.size());
    input = input.subspan(piece.size());
  }
}

std::vector<std::byte> WorkerLink::take(std::uint64_t bytes) {
  if (bytes > kMostStateBytes) fail(concat("says that its state has ", bytes, " bytes; ", kMostStateBytes, " may be"));
  std::vector<std::byte> output;
  while (output.size() < bytes) {
    const std::uint64_t piece = call(WorkerCommand::kTake);
    if (piece == 0 || piece > kWindowBytes || piece > bytes - output.size())
      fail(concat("handed over a piece of ", piece, " bytes of a state of ", bytes));
    const std::byte* const from = region_.at(layout_.table.window);
    output.insert(output.end(), from, from + piece);
  }
  return output;
}

void WorkerLink::fail(const std::string& what) {
  const pid_t id = process_.id();
  (void)process_.end({});
  throw WorkerLost(concat("the worker process ", id, " of ", layout_.table.environments, " environments ", what,
                          ", and was killed"));
}

void WorkerLink::lose(Clock::duration patience, const std::string& why) {
  const pid_t id = process_.id();
  const std::string how = process_.end(patience);
  const char* const hint = has_begun_ ? ""
                                      : "; if this program has a main() of its own, main() must hand its arguments to "
                                        "run_program(), which also serves as the worker";
  throw WorkerLost(
      concat("the worker process ", id, " of ", layout_.table.environments, " environments ", how, " ", why, hint));
}

}  // namespace tandem::rl
