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
    case WorkerCommand::kDescribe:
      return "while it made its environments";
    case WorkerCommand::kReset:
      return "in a reset";
    case WorkerCommand::kStep:
    case WorkerCommand::kStepRows:
      return "in a step";
    case WorkerCommand::kSave:
    case WorkerCommand::kTake:
      return "while its environments were saved";
    case WorkerCommand::kLoad:
    case WorkerCommand::kGive:
      return "while its environments were loaded";
    case WorkerCommand::kRender:
      return "while it drew a picture";
    case WorkerCommand::kRewardGoals:
      return "while it rewarded goals";
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

WorkerLink::WorkerLink(const RegionLayout& layout, const IsolationOptions& options, RestartBudget* budget)
    : layout_(layout),
      options_(options),
      budget_(budget),
      region_(layout),
      header_(region_.header()),
      sockets_(connected()),
      process_({.command = options.command,
                .socket = sockets_.other.get(),
                .memory = region_.descriptor(),
                .input = options.input,
                .without_variables = options.without_variables,
                .most_memory = options.most_memory,
                .tell = options.tell,
                // What it has started may hold its socket, which then does not end with it.
                .on_end = [own = sockets_.own.get()] { ::shutdown(own, SHUT_RDWR); }}) {
  sockets_.other.close();  // ours would hide the worker's end
}

void WorkerLink::begin(const WorkerTask& task) {
  const std::string json = json_of(task);
  give(std::as_bytes(std::span(json)));
  constexpr std::uint64_t kSaves = 1, kStepsRows = 2, kDraws = 4, kRewardsGoals = 8;
  const std::uint64_t can = call(WorkerCommand::kBegin);
  if (can > kSaves + kStepsRows + kDraws + kRewardsGoals)
    fail(concat("says ", can, " of what it can do, which means nothing"));
  can_save_ = (can & kSaves) != 0;
  can_step_rows_ = (can & kStepsRows) != 0;
  can_draw_ = (can & kDraws) != 0;
  can_reward_goals_ = (can & kRewardsGoals) != 0;
  has_begun_ = true;
}

std::string WorkerLink::describe(const WorkerTask& task, std::uint64_t most_bytes) {
  const std::string json = json_of(task);
  give(std::as_bytes(std::span(json)));
  const std::uint64_t bytes = call(WorkerCommand::kDescribe);
  if (bytes > most_bytes) fail(concat("says that its spec has ", bytes, " bytes; ", most_bytes, " may be"));
  const std::vector<std::byte> text = take(bytes);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

// The end of the socket tells a worker that waits to destroy its environments; one that is inside a call ends at once.
WorkerLink::~WorkerLink() {
  ::shutdown(sockets_.own.get(), SHUT_RDWR);
  (void)process_.end(kPatienceForTheEnd);
}

void WorkerLink::set_progress(double share) {
  header_.progress = share;
  (void)call(WorkerCommand::kProgress);
}

Clock::duration WorkerLink::allowed() const {
  return options_.deadline + (has_begun_ ? Clock::duration{} : kStartPatience);
}

std::uint64_t WorkerLink::call(WorkerCommand command, std::uint64_t argument) {
  return call(command, argument, Deadline::after(allowed()));
}

void WorkerLink::start(WorkerCommand command) {
  started_ = command;
  until_ = Deadline::after(allowed());
  send(command, 0);
}

std::uint64_t WorkerLink::finish() { return answer_to(started_, *until_); }

std::uint64_t WorkerLink::call(WorkerCommand command, std::uint64_t argument, const Deadline& deadline) {
  send(command, argument);
  return answer_to(command, deadline);
}

std::uint64_t WorkerLink::answer_to(WorkerCommand command, const Deadline& deadline) {
  granted_ = 0;
  bool may_ask = budget_ != nullptr;
  WorkerOutcome its = outcome(command, deadline);
  for (; its == WorkerOutcome::kAsks; its = outcome(command, deadline)) {
    if (budget_ == nullptr) fail("asked for a restart, and its task has none");
    if (!may_ask) fail("asked for a restart again after it was refused one");
    may_ask = budget_->take(text(its_value()));
    granted_ += may_ask ? 1 : 0;
    send(WorkerCommand::kAnswer, may_ask ? 1 : 0);
  }
  const std::uint64_t value = its_value();
  if (its == WorkerOutcome::kDone) return value;
  if (its == WorkerOutcome::kFailed) throw EnvError(text(value));
  // The errors of a user's mistake and of a checkpoint say what to do next, so a worker must not choose them freely.
  if (its == WorkerOutcome::kRefused && (command == WorkerCommand::kBegin || command == WorkerCommand::kDescribe))
    throw ConfigError(text(value));
  if (its == WorkerOutcome::kUnreadable && command == WorkerCommand::kLoad) throw CheckpointError(text(value));
  fail(concat("answered with the word ", static_cast<std::uint32_t>(its), ", which is no answer ", words_for(command)));
}

void WorkerLink::send(WorkerCommand command, std::uint64_t argument) {
  header_.command = static_cast<std::uint32_t>(command);
  header_.argument = argument;
  ring(header_.request, ++requests_, header_.worker_sleeps, sockets_.own.get());
}

// The wait is made of parts, and none counts for more than it was to last. So the time in which this process stood
// still itself, as after Ctrl-Z or in a container that was paused with its workers, is not held against a worker; nor
// is it where it fell before the wait, since a part of the patience is always left.
WorkerOutcome WorkerLink::outcome(WorkerCommand for_what, const Deadline& deadline) {
  const BellWait wait{.number = header_.done,
                      .value = requests_,
                      .own_sleeps = header_.learner_sleeps,
                      .socket = sockets_.own.get(),
                      .spin = options_.spin};
  Clock::duration left = std::max(deadline.remaining(), allowed() / 4);
  while (left > Clock::duration::zero()) {
    const Clock::duration part = std::min(left, allowed() / 16);
    switch (wait.until(Deadline::after(part))) {
      case BellOutcome::kRung:
        // Read once: the worker may change it at any time.
        return static_cast<WorkerOutcome>(static_cast<const volatile std::uint32_t&>(header_.outcome));
      case BellOutcome::kGone:
        lose(kPatienceForTheDying, words_for(for_what));
      case BellOutcome::kLate:
        left -= part;
    }
  }
  const double seconds = std::chrono::duration<double>(allowed()).count();
  lose({}, concat(words_for(for_what), ", since it did not answer for ", seconds, " s (env_deadline_seconds)"));
}

std::uint64_t WorkerLink::its_value() const { return static_cast<const volatile std::uint64_t&>(header_.value); }

std::string WorkerLink::text(std::uint64_t bytes) const {
  std::string text(std::min<std::uint64_t>(bytes, kMostAnswerText), '\0');
  std::memcpy(text.data(), region_.at(layout_.table.window), text.size());
  return printable(text);
}

void WorkerLink::give(std::span<const std::byte> input) {
  const Deadline deadline = Deadline::after(allowed());
  while (!input.empty()) {
    const std::span<const std::byte> piece = input.first(std::min(input.size(), kWindowBytes));
    std::memcpy(region_.at(layout_.table.window), piece.data(), piece.size());
    (void)call(WorkerCommand::kGive, piece.size(), deadline);
    input = input.subspan(piece.size());
  }
}

std::vector<std::byte> WorkerLink::take(std::uint64_t bytes) {
  if (bytes > kMostStateBytes) fail(concat("says that its state has ", bytes, " bytes; ", kMostStateBytes, " may be"));
  const Deadline deadline = Deadline::after(allowed());
  std::vector<std::byte> output;
  while (output.size() < bytes) {
    const std::uint64_t due = std::min<std::uint64_t>(kWindowBytes, bytes - output.size());
    const std::uint64_t piece = call(WorkerCommand::kTake, 0, deadline);
    if (piece != due)
      fail(concat("handed over a piece of ", piece, " bytes of a state of ", bytes, "; ", due, " were due"));
    const std::byte* const from = region_.at(layout_.table.window);
    output.insert(output.end(), from, from + due);
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
  const std::string hint = has_begun_ || options_.hint.empty() ? "" : concat("; ", options_.hint);
  throw WorkerLost(
      concat("the worker process ", id, " of ", layout_.table.environments, " environments ", how, " ", why, hint));
}

}  // namespace tandem::rl
