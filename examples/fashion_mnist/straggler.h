// Makes one replica slower than it is, to see what a machine of uneven speed costs under each strategy.
#pragma once
#include <chrono>
#include <ctime>
#include <thread>

namespace fashion_mnist {

/// Called before each step of the replica: sleeps until its last step took `factor` times what its thread computed.
class Straggler {
 public:
  explicit Straggler(double factor) : factor_(factor) {}

  void lag() {
    const double computed = cpu_seconds() - computed_until_;
    std::this_thread::sleep_for(std::chrono::duration<double>((factor_ - 1) * computed));
    computed_until_ = cpu_seconds();
  }

 private:
  // What the calling thread has computed so far.
  static double cpu_seconds() {
    timespec time{};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  const double factor_;
  double computed_until_ = cpu_seconds();
};

}  // namespace fashion_mnist
