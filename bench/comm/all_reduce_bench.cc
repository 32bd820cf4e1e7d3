// Question: how long do the replicas of one process, the ranks of one host, also beside a busy process of nice 10, and
// two ranks over TCP on loopback take to sum a vector, in the group's own memory, against one thread that copies as
// many bytes?
//
// Time is that of the slowest member, from when all are there. The copy is a yardstick that no sum can undercut on one
// core: it reads each byte once and writes it once.
#include <ATen/ATen.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "bench/comm/busy_process.h"
#include "bench/comm/rank_processes.h"
#include "bench/timing.h"
#include "tandem/base/text.h"
#include "tandem/comm/links/network_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/thread_team.h"

namespace tandem::bench {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr double kSecondsOfACase = 0.5;

// Replicas on threads of their own, with one vector each in the group's memory.
class World {
 public:
  World(int replicas, std::int64_t bytes)
      : count_(bytes / static_cast<std::int64_t>(sizeof(float))),
        members_(comm::make_local_group(replicas)),
        team_("replica", replicas, spin_budget_for(replicas)) {
    for (const auto& member : members_) vectors_.push_back(member->allocate(count_, at::kFloat, at::kCPU));
    team_.set_on_failure([this](int, const std::string& why) { members_.front()->abort(why); });
  }

  // Each element tells replica and place, small enough for the sum to be exact in float32.
  [[nodiscard]] bool sums_exactly() {
    team_.run([this](int rank) {
      float* element = vector(rank);
      for (std::int64_t i = 0; i < count_; ++i) element[i] = static_cast<float>((rank + 1) * (i % 1000 + 1));
      all_reduce(rank);
    });
    const int sum_of_ranks = team_.size() * (team_.size() + 1) / 2;
    const auto ranks = static_cast<float>(sum_of_ranks);
    for (int rank = 0; rank < team_.size(); ++rank) {
      for (std::int64_t i = 0; i < count_; ++i) {
        if (vector(rank)[i] != ranks * static_cast<float>(i % 1000 + 1)) return false;
      }
    }
    return true;
  }

  // Seconds of each of `count` sums.
  [[nodiscard]] std::vector<double> time(int count) {
    const auto ranks = static_cast<std::size_t>(team_.size());
    std::vector<std::vector<double>> seconds(ranks, std::vector<double>(static_cast<std::size_t>(count)));
    team_.run([&](int rank) {
      std::memset(vector(rank), 0, static_cast<std::size_t>(count_) * sizeof(float));  // sums of zeros stay zeros
      for (double& of_one : seconds[static_cast<std::size_t>(rank)]) {
        members_[static_cast<std::size_t>(rank)]->barrier(within_a_minute());
        const Clock::time_point start = Clock::now();
        all_reduce(rank);
        of_one = seconds_since(start);
      }
    });
    std::vector<double> slowest = seconds.front();
    for (const std::vector<double>& of_rank : seconds) {
      for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], of_rank[i]);
    }
    return slowest;
  }

 private:
  float* vector(int rank) { return vectors_[static_cast<std::size_t>(rank)].data_ptr<float>(); }
  void all_reduce(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    members_[index]->start_all_reduce(vectors_[index]).wait(within_a_minute());
  }

  const std::int64_t count_;
  std::vector<std::unique_ptr<comm::Group>> members_;
  std::vector<at::Tensor> vectors_;
  ThreadTeam team_;
};

std::vector<double> time_copies(std::int64_t bytes, int count) {
  std::vector<char> from(static_cast<std::size_t>(bytes), 1), to(from.size());
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    std::memcpy(to.data(), from.data(), from.size());
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy is wanted, though nobody reads it
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

// A few repetitions warm up and say how many more fill the time.
template <typename Time>
Samples sample(Size size, const Time& time) {
  const Samples first(time(5));
  return size == Size::kSmoke ? first : Samples(time(repetitions(first.quantile(0.5), kSecondsOfACase)));
}

std::string size_text(std::int64_t bytes) {
  if (bytes < kKiB) return concat(bytes, " bytes");
  return bytes < kMiB ? concat(bytes / kKiB, " KiB") : concat(bytes / kMiB, " MiB");
}

void print_case(const std::string& name, const char* contender, const Samples& samples, double bus_bytes) {
  const double median = samples.quantile(0.5);
  print({.case_name = name,
         .contender = contender,
         .unit = "us",
         .value = 1e6 * median,
         .p99 = 1e6 * samples.quantile(0.99),
         .samples = samples.size(),
         .bus_gb_s = bus_bytes / median / 1e9});
}

void print_case(const std::string& name, int members, std::int64_t bytes, const Samples& tandem, Size size) {
  // Bus bandwidth as NCCL's tests define it: what each link would carry in the best algorithm.
  const double bus = 2.0 * (members - 1) / members * static_cast<double>(bytes);
  print_case(name, "tandem", tandem, bus);
  print_case(name, "memcpy", sample(size, [&](int count) { return time_copies(bytes, count); }), 0);
}

void run_tcp(const std::vector<std::int64_t>& sizes, Size size) {
  for (const std::int64_t bytes : sizes) {
    const Samples samples(time_between_processes(Transport::kTcp, 2, bytes, kSecondsOfACase, size));
    print_case(concat("2 ranks over TCP x ", size_text(bytes)), 2, bytes, samples, size);
  }
}

// Ranks that have a core each, of which one is busy with something else as well.
void run_in_company(const std::vector<std::int64_t>& sizes, Size size) {
  const BusyProcess company;
  for (const std::int64_t bytes : sizes) {
    const Samples samples(time_between_processes(Transport::kHost, 2, bytes, kSecondsOfACase, size));
    print_case(concat("2 ranks in company x ", size_text(bytes)), 2, bytes, samples, size);
  }
}

int run(Size size) {
  const std::vector<int> counts = size == Size::kSmoke ? std::vector{2, 3} : std::vector{2, 4};
  const std::vector<std::int64_t> sizes =
      size == Size::kSmoke ? std::vector{kKiB}
                           : std::vector{std::int64_t{8}, 4 * kKiB, 64 * kKiB, kMiB, 4 * kMiB, 40 * kMiB};
  // First, since it forks and later cases start threads.
  for (const int ranks : counts) {
    for (const std::int64_t bytes : sizes) {
      const Samples samples(time_between_processes(Transport::kHost, ranks, bytes, kSecondsOfACase, size));
      print_case(concat(ranks, " ranks x ", size_text(bytes)), ranks, bytes, samples, size);
    }
  }
  run_in_company(size == Size::kSmoke ? sizes : std::vector{std::int64_t{8}, 4 * kKiB, 64 * kKiB}, size);
  run_tcp(size == Size::kSmoke ? sizes : std::vector{std::int64_t{8}, 4 * kMiB, 40 * kMiB}, size);
  for (const int replicas : counts) {
    for (const std::int64_t bytes : sizes) {
      World world(replicas, bytes);
      const std::string name = concat(replicas, " replicas x ", size_text(bytes));
      if (!world.sums_exactly()) {
        std::cerr << "all_reduce " << name << ": wrong sums\n";
        return 1;
      }
      print_case(name, replicas, bytes, sample(size, [&](int count) { return world.time(count); }), size);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
