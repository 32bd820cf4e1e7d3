// net/failure_message.h: an exception as an answer. Internal.
#pragma once
#include <exception>

#include "tandem/net/connection.h"

namespace tandem::net {

/// The kind of answers that tell of a failure; users' kinds are others.
inline constexpr std::uint32_t kFailure = 0xFFFFFFFF;
/// The same without a request, and the last message: the server serves no more.
inline constexpr std::uint32_t kFarewell = 0xFFFFFFFE;

[[nodiscard]] Message failure_message(const std::exception& error, std::uint32_t kind = kFailure);
/// Throws what failure_message() was made of: of the classes of RunError the same, anything else as RunError.
[[noreturn]] void throw_failure(const Message& message);

}  // namespace tandem::net
