// base/rounding.h: keeps how this thread rounds numbers, which belongs to the thread and not to the functions that run
// on it. An environment that calls fesetround(), or a library that is built with -ffast-math and sets "flush to zero"
// when it is loaded, would else change every number that is computed after it.
//
//   const KeptRounding kept;
//   group->step(actions, out);
//
// Threads: each object belongs to the thread that made it; restored() may be called from any. Costs some nanoseconds.
#pragma once
#include <atomic>
#include <cfenv>
#include <cstdint>

namespace tandem {

class KeptRounding {
 public:
  KeptRounding() = default;
  /// Puts back what was changed since, and counts it.
  ~KeptRounding() {
    if (control() == before_) return;
    set_control(before_);
    count().fetch_add(1, std::memory_order_relaxed);
  }
  KeptRounding(const KeptRounding&) = delete;
  KeptRounding& operator=(const KeptRounding&) = delete;

  /// How often objects of this process had something to put back.
  [[nodiscard]] static std::int64_t restored() { return count().load(std::memory_order_relaxed); }

 private:
  static std::atomic<std::int64_t>& count() {
    static std::atomic<std::int64_t> it{0};
    return it;
  }
#if defined(__x86_64__)
  // All of the register but its low six bits, which say what has happened: rounding, denormal numbers, traps.
  static constexpr unsigned kControl = 0xFFC0, kRounding = 0x6000;
  static unsigned control() { return __builtin_ia32_stmxcsr() & kControl; }
  static void set_control(unsigned bits) {
    // The x87 unit, which long double uses, rounds by a word of its own, three bits lower; fesetround() sets both.
    (void)std::fesetround(static_cast<int>((bits & kRounding) >> 3));
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~kControl) | bits);
  }
#else
  static unsigned control() { return static_cast<unsigned>(std::fegetround()); }
  static void set_control(unsigned bits) { (void)std::fesetround(static_cast<int>(bits)); }
#endif

  const unsigned before_ = control();
};

}  // namespace tandem
