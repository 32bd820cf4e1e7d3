// tests/namespaces/two_hosts.h: two network namespaces with a cable between them, as two hosts.
//
// A process holds each namespace, and the cable lies within them: nothing has a name outside, and all is gone when the
// holders end, which they do with the test however it ends.
//
// Threads: single-thread, as ProcessWorld.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "tandem/shm/testing/process_world.h"

namespace tandem::namespaces_test {

/// The secret of runs over both hosts.
inline constexpr const char* kRunSecret = "two hosts, one run";

class TwoHosts {
 public:
  /// Empty hosts when the system refuses; refusal() says what.
  TwoHosts();

  [[nodiscard]] const std::optional<std::string>& refusal() const { return refusal_; }
  /// The address of a host on the cable.
  [[nodiscard]] static std::string address(int host);
  /// The process that holds a host.
  [[nodiscard]] int process(int host) const { return processes_.at(static_cast<std::size_t>(host)); }
  /// Moves the calling thread, and what it starts, to a host.
  void enter(int host) const;
  /// Cuts the cable, or mends it: what was under way is sent again then.
  void cut() const;
  void mend() const;

 private:
  std::optional<std::string> connect();
  [[nodiscard]] std::optional<std::string> on(int host, const std::string& command) const;

  shm::ProcessWorld holders_;
  std::array<int, 2> processes_{};
  std::optional<std::string> refusal_;
};

/// Bytes that this thread's host has sent over the cable.
[[nodiscard]] std::int64_t bytes_sent();

}  // namespace tandem::namespaces_test
