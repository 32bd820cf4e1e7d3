// net/failure_message.h: carries an exception in a message from the server to a client. Internal.
//
// The kind of error survives the way if it is one that a client treats in its own way: PeerLost, DeadlineExceeded and
// GroupAborted. Any other exception arrives as a RunError.
//
// Threads: all.
#pragma once
#include <exception>

#include "tandem/net/connection.h"

namespace tandem::net {

/// The Message::kind of an answer that carries a failure. Users of a connection use other kinds.
inline constexpr std::uint32_t kFailure = 0xFFFFFFFF;
/// The Message::kind of a failure that answers no request and is the last message: the server serves no more.
inline constexpr std::uint32_t kFarewell = 0xFFFFFFFE;

/// Makes the message of an exception.
[[nodiscard]] Message failure_message(const std::exception& error, std::uint32_t kind = kFailure);
/// Throws the exception of a message that failure_message() made.
[[noreturn]] void throw_failure(const Message& message);

}  // namespace tandem::net
