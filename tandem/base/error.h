// base/error.h: the exceptions that Tandem throws, by whose turn it is to act.
//
//   ConfigError     the user can mend it: a flag, a key, a path, a shape. The program exits with 2.
//   RunError        the world failed while running: a peer, data, an environment, a file. The program exits with 3.
//   InvariantError  our own defect (TANDEM_CHECK). The program exits with 70.
//
// A message says what failed, where, with which numbers, the likely cause and the next step. Nothing matches on its
// text. What is expected to happen (a closed queue, a stale gradient) is a value and not an exception.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One or several faults of what the user asked for; all that were found are reported together.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& fault) : ConfigError(std::vector<std::string>{fault}) {}
  explicit ConfigError(std::vector<std::string> faults);
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  std::vector<std::string> faults_;
};

class RunError : public Error {
 public:
  using Error::Error;
};

/// A member of a group died, left, or stopped answering.
class PeerLost : public RunError {
 public:
  PeerLost(int peer, const std::string& message) : RunError(message), peer_(peer) {}
  [[nodiscard]] int peer() const { return peer_; }

 private:
  int peer_;
};

/// A wait reached its deadline.
class DeadlineExceeded : public RunError {
 public:
  using RunError::RunError;
};

/// A thread did not come back after it was told to end: it is inside code that cannot be ended from outside, an
/// environment or a loss that hangs. What owns the thread cannot be destroyed before it comes back, so a program that
/// gets this reports it and ends its process (std::_Exit).
class HungThread : public DeadlineExceeded {
 public:
  using DeadlineExceeded::DeadlineExceeded;
};

/// A call of code that is the user's, an environment's step say, took longer than it may. It is this process's own
/// failure: nobody else is lost.
class StalledCall : public DeadlineExceeded {
 public:
  using DeadlineExceeded::DeadlineExceeded;
};

/// Another member of the group failed first, and the group was aborted; that failure is the one to report.
class GroupAborted : public RunError {
 public:
  using RunError::RunError;
};

/// Training data that cannot be used: missing, malformed, of the wrong shape.
class DataError : public RunError {
 public:
  using RunError::RunError;
};

/// An environment threw, or returned what its spec does not allow (NaN, an observation of another size).
class EnvError : public RunError {
 public:
  using RunError::RunError;
};

/// A checkpoint or another file of a run folder that cannot be written or read.
class CheckpointError : public RunError {
 public:
  using RunError::RunError;
};

/// A defect of Tandem itself. The message holds the condition, the place and the call stack.
class InvariantError : public Error {
 public:
  using Error::Error;
};

}  // namespace tandem
