// concurrency/named_error.h: says in an error which thread it comes from.
//
// Threads: all.
#pragma once
#include <string>

namespace tandem {

/// Rethrows the exception that is being handled as the same kind of Tandem's errors, with "NAME: " in front of its
/// message. What is none of them, such as std::bad_alloc, goes on as it is.
[[noreturn]] void rethrow_named(const std::string& name);

}  // namespace tandem
