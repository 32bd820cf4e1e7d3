// shm/cause.h: why a member closed its group, and the error that this is for the others.
//
// Threads: all.
#pragma once
#include <cstdint>
#include <string>

namespace tandem::shm {

enum class Cause : std::uint32_t { kAborted, kStopped, kDeadline, kMismatch, kLost, kLeft };

/// Whose deadline, in Cause::kDeadline, had passed.
enum class ClosedBy { kMe, kAnother };

/// PeerLost(`lost`) when somebody is gone, RunError for a mismatch, DeadlineExceeded for who closed the group at its
/// own deadline; else GroupAborted.
[[noreturn]] void throw_closed(Cause cause, ClosedBy by, int lost, const std::string& message);

}  // namespace tandem::shm
