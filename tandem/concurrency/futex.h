// concurrency/futex.h: sleeps in the kernel until a 32-bit word changes. std::atomic::wait has no deadline and never
// wakes another process, so it does not serve here.
//
// Threads: all. Note [No wake-up is lost] in wait_word.cc says how to build a wait on it.
// Source: the Linux manual page futex(2).
#pragma once
#include <atomic>
#include <cstdint>

#include "tandem/base/clock.h"

namespace tandem {

/// Who may sleep on a word: the threads of this process, or those of all processes that have mapped its memory. A wait
/// and a wake-up of different scopes do not meet.
enum class FutexScope { kProcess, kHost };

/// Sleeps if the word is `old`, until a wake-up or the deadline. It may also return early without a reason, so the
/// caller looks at the word again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t old, const Deadline& deadline, FutexScope scope);

/// Wakes all threads that sleep on the word.
void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope);

}  // namespace tandem
