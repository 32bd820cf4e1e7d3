// base/error.h: the exceptions that Tandem throws, sorted by who has to act.
//
//   ConfigError     The user can correct a flag, a key, a path or a shape. The program exits with 2.
//   RunError        The world failed during the run: a peer, data, an environment, a file. The program exits with 3.
//   InvariantError  Tandem itself has a defect (TANDEM_CHECK). The program exits with 70.
//
// A message says what failed and where, with the numbers, the likely cause and the next step. No code depends on the
// text of a message. An event that is expected (a closed queue, a stale gradient) is a return value and not an
// exception.
//
// Threads: all.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem {

/// The base of all exceptions that Tandem throws itself.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One or several faults in what the user asked for. All faults that were found are reported together. A check that can
/// find several faults goes on after the first one, so that the user can correct all at once.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& fault) : ConfigError(std::vector<std::string>{fault}) {}
  explicit ConfigError(std::vector<std::string> faults);
  /// The faults one by one; what() has all of them in one text.
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  std::vector<std::string> faults_;
};

/// Something outside of the program failed during the run.
struct RunError : Error {
  using Error::Error;
};

/// A member of a group died, left, or stopped answering. The number counts in the group whose operation threw;
/// rethrow_with() translates it for an outer group.
class PeerLost : public RunError {
 public:
  PeerLost(int peer, const std::string& message) : RunError(message), peer_(peer) {}
  /// The number of the lost member in its group.
  [[nodiscard]] int peer() const { return peer_; }

 private:
  int peer_;
};

/// A wait reached its deadline.
struct DeadlineExceeded : RunError {
  using RunError::RunError;
};

/// A thread did not come back after it was told to end. It is inside code that cannot be ended from outside, such as an
/// environment or a loss that hangs. The owner of the thread cannot be destroyed before the thread comes back, so a
/// program that gets this error reports it and ends its process (std::_Exit).
struct HungThread : DeadlineExceeded {
  using DeadlineExceeded::DeadlineExceeded;
};

/// A call of the user's code, such as an environment's step, took longer than allowed. The failure is this process's
/// own: no peer is lost.
struct StalledCall : DeadlineExceeded {
  using DeadlineExceeded::DeadlineExceeded;
};

/// Another member of the group failed first, and the group was aborted. The other member's failure is the one to
/// report.
struct GroupAborted : RunError {
  using RunError::RunError;
};

/// Training data cannot be used: it is missing, malformed, or has the wrong shape.
struct DataError : RunError {
  using RunError::RunError;
};

/// An environment threw, or returned what its spec does not allow (NaN, an observation of another size). The message
/// names the environment and its step.
struct EnvError : RunError {
  using RunError::RunError;
};

/// A checkpoint or another file of a run folder cannot be written or read.
struct CheckpointError : RunError {
  using RunError::RunError;
};

/// Tandem itself has a defect. The message holds the condition, the place and the call stack.
struct InvariantError : Error {
  using Error::Error;
};

/// Adds the knowledge of an upper layer to an error that comes from a lower one:
///
///   try {
///     group.barrier(limits);
///   } catch (const Error&) {
///     rethrow_with("update 7: ");
///   }
///
/// Rethrows the Error that is being handled as the same kind of error, with `before` in front of its message. A
/// ConfigError gets `before` in front of each fault. A PeerLost gets the peer that `rank_of` returns for its own.
/// Subclasses that error.h does not list become the listed class above them; StalledCall becomes DeadlineExceeded. Any
/// other exception, such as std::bad_alloc, is rethrown as it is. Call it within a catch clause only.
[[noreturn]] void rethrow_with(
    const std::string& before, const std::function<int(int)>& rank_of = [](int rank) { return rank; });

}  // namespace tandem
