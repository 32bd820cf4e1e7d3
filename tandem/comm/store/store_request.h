// comm/store/store_request.h: what a process asks a store in another one, and how that travels: a net::Message whose
// kind is the question. Internal to store_server.cc and hosted_store.cc.
//
// Nothing that comes is believed: a message that is no request is a RunError.
//
// Threads: values.
#pragma once
#include <cstdint>
#include <string>

#include "tandem/net/connection.h"

namespace tandem::comm {

struct StoreRequest {
  enum class Kind : std::uint32_t { kSet = 1, kFind, kAdd, kCompareSet };

  Kind kind = Kind::kFind;
  std::string key{};
  std::string value{};      // kSet, kCompareSet: what the key is to have
  std::string expected{};   // kCompareSet
  std::int64_t amount = 0;  // kAdd
};

/// The largest message that is a request.
inline constexpr std::size_t kMostRequestBytes = std::size_t{40} << 20;

[[nodiscard]] net::Message message_of(const StoreRequest& request);
[[nodiscard]] StoreRequest request_of(const net::Message& message);

// The Message::kind of an answer: the value, or that there is none. A failure is net::failure_message()'s.
inline constexpr std::uint32_t kValue = 1, kNoValue = 2;

}  // namespace tandem::comm
