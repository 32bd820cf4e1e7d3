// concurrency/futex.h: sleeping in the kernel until a 32-bit word changes. std::atomic::wait knows no deadline and
// never wakes another process.
//
// Threads: all. How a wait is built on it without losing a wake-up: Note [No wake-up is lost] in wait_word.cc.
#pragma once
#include <atomic>
#include <cstdint>

#include "tandem/base/clock.h"

namespace tandem {

/// Who may sleep on a word: threads of this process, or all that have mapped its memory.
enum class FutexScope { kProcess, kHost };

/// Sleeps if the word is `old`, until it is woken or the deadline has passed. May return early: look at the word again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t old, const Deadline& deadline, FutexScope scope);

/// Wakes everyone who sleeps on the word.
void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope);

}  // namespace tandem
