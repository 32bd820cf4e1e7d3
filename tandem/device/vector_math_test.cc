#include "tandem/device/vector_math.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "tandem/device/one_core.h"

namespace tandem::device {
namespace {

constexpr std::size_t kThreads = 3;
constexpr int kProcesses = 250;

// Filled by hand: an operation here would be the first of all processes.
at::Tensor plain(std::int64_t rows, std::int64_t columns) {
  const at::Tensor made = at::empty({rows, columns});
  std::iota(made.data_ptr<float>(), made.data_ptr<float>() + made.numel(), 0.0F);
  for (std::int64_t i = 0; i < made.numel(); ++i) made.data_ptr<float>()[i] /= static_cast<float>(made.numel());
  return made;
}

// A small layer of a network: a product that takes a few microseconds, and then a function.
at::Tensor layer(const at::Tensor& input, const at::Tensor& weight) { return at::linear(input, weight).tanh(); }

// Ends with 0 when three threads that begin at once compute what one thread computes afterwards.
[[noreturn]] void compute_side_by_side(const at::Tensor& input, const at::Tensor& weight) {
  std::array<at::Tensor, kThreads> results;
  std::atomic<std::size_t> ready = 0;
  {
    std::array<std::jthread, kThreads> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads[t] = std::jthread([&, t] {
        use_one_core();
        ++ready;
        while (ready < kThreads) continue;  // a yield would let them come one after the other
        results[t] = layer(input, weight.clone().clone());
      });
    }
  }
  const at::Tensor expected = layer(input, weight);
  for (const at::Tensor& result : results) {
    if (!at::equal(result, expected)) ::_exit(1);
  }
  ::_exit(0);
}

// In each process anew, because only the first calls of a process may go wrong. Without begin_vector_math() a few of a
// thousand processes do.
TEST(VectorMathTest, TheFirstCallsOfSeveralThreadsAreAsExactAsLaterOnes) {
  const at::Tensor input = plain(64, 3), weight = plain(16, 3);
  int wrong = 0;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) compute_side_by_side(input, weight);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    wrong += status != 0 ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0) << "of " << kProcesses << " processes";
}

}  // namespace
}  // namespace tandem::device
