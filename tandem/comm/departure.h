// comm/departure.h: tells the other ranks why this one leaves, when an exception ends it.
//
// Without this they could say no more than that a rank left, or died. A World and a DataParallel that an exception
// destroys leave their group with a reason (Group::fail()), as does std::terminate() before it ends the process: ranks
// that still need this one say so in their errors. The reason is also written to the run's store, where the launcher
// reads which rank was first.
//
// C++ does not show a destructor the exception that is under way. So the reason has the exception's text where it is
// known: in std::terminate(), and where the exception came out of one of Tandem's own calls (note_failure()). Else it
// says that what the rank printed says more.
//
// Threads: all. Blocking: a reply of the store, at most. Errors: none.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tandem/comm/group.h"

namespace tandem::comm {

class Store;

/// Which rank failed first, and why.
struct FirstFailure {
  int rank = 0;
  std::string why;
};

/// Remembers the text of an exception that leaves a call of Tandem's on this thread; an empty one forgets it.
void note_failure(const std::string& what);
/// Makes a call, and notes the text of what it throws.
template <typename Call>
auto noting_failures(const Call& call) {
  note_failure("");
  try {
    return call();
  } catch (const std::exception& error) {
    note_failure(error.what());
    throw;
  }
}
/// The first lines of an error's text, without LibTorch's call stack; at most 1,000 bytes.
[[nodiscard]] std::string first_lines(const std::string& what);

/// For destructors: counts the exceptions that are under way when it is made, and knows later whether another one is.
class UnderWay {
 public:
  [[nodiscard]] bool another() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

/// An exception destroys what uses `group`: leaves it with the reason, unless it is closed, and writes the reason to
/// the store of its world.
void leave_by_exception(Group& group) noexcept;

/// The process is about to end, and not by its own doing: leaves the groups of all worlds with the reason, and writes
/// it to their stores. Waits a fifth of a second, so that the groups' own threads can send it.
void leave_all(const std::string& why) noexcept;

/// What a World holds for its group. Its destructor calls leave_by_exception() when an exception is under way.
class Departure {
 public:
  /// Of no group.
  Departure() = default;
  /// Shares `group`. `tell`: writes the first failure of the run to its store. From now on std::terminate() leaves the
  /// group, too.
  Departure(std::shared_ptr<Group> group, std::function<void(const std::string& why)> tell);
  ~Departure();
  Departure(Departure&& other) noexcept : group_(std::exchange(other.group_, nullptr)) {}
  Departure& operator=(Departure&& other) noexcept;

 private:
  void end() noexcept;

  std::shared_ptr<Group> group_;
  UnderWay under_way_;
};

/// Writes the first failure of a run; returns the one that is written, which may be another rank's. `words`: the part
/// of that name of the run's store.
FirstFailure tell_first_failure(Store& words, const FirstFailure& mine);
/// What was written there; nothing if nothing was.
[[nodiscard]] std::optional<FirstFailure> first_failure_of(Store& words);
/// The same; nothing also where it is that of `rank` itself.
[[nodiscard]] inline std::optional<FirstFailure> failure_of_another(Store& words, int rank) {
  const std::optional<FirstFailure> first = first_failure_of(words);
  return first && first->rank != rank ? first : std::nullopt;
}

}  // namespace tandem::comm
