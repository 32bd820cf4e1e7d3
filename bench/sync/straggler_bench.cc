// Question: what does one slow worker cost the others, and what does a step cost without one?
//
//     straggler_bench [--smoke]
//
// An MLP of 94,218 parameters on 64 rows a worker, cross entropy, plain SGD; workers are threads, one of which sleeps
// 200 ms a step where there is a straggler. Prints steps a second: of sync_replicas with three workers and two
// gradients a step, of two workers alone, and of replicated, which waits; and the share of the fast workers' gradients
// that were dropped. Two workers are processes, too, and processes that a standby protects against the death of the one
// that holds the variables. All workers must end with the same state. What two workers do that exchange nothing is the
// limit for two. Medians of several turns each, one after the other, because a machine that is shared has slow seconds.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "bench/forked_ranks.h"
#include "bench/timing.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/concurrency/worker.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategies.h"

namespace tandem::bench {
namespace {

constexpr int kRows = 64, kWarmUp = 10;
constexpr std::array kWidths{100, 256, 256, 10};
constexpr auto kSleep = std::chrono::milliseconds(200);

enum class Last { kFast, kStraggles };  // of the workers, the last
enum class Workers { kThreads, kProcesses };

struct Case {
  const char *name, *contender;
  int workers;
  Workers are;
  Last last;
  sync::StrategyOptions strategy;
  std::int64_t steps;
};

struct Result {
  double steps_a_second = 0, dropped_percent = 0;  // of the fast workers' gradients
};

std::shared_ptr<torch::nn::SequentialImpl> make_net() {
  torch::manual_seed(3);
  auto net = std::make_shared<torch::nn::SequentialImpl>();
  for (std::size_t layer = 1; layer < kWidths.size(); ++layer) {
    if (layer > 1) net->push_back(torch::nn::Tanh());
    net->push_back(torch::nn::Linear(kWidths[layer - 1], kWidths[layer]));
  }
  return net;
}

struct Rows {
  at::Tensor x, labels;
};

Rows rows_of(int worker) {
  return {.x = at::arange(kRows * kWidths.front(), at::kFloat).view({kRows, kWidths.front()}).add(worker).sin(),
          .labels = at::arange(kRows, at::kLong).remainder(kWidths.back())};
}

at::Tensor loss_of(torch::nn::SequentialImpl& net, const Rows& rows) {
  return torch::nn::functional::cross_entropy(net.forward(rows.x), rows.labels);
}

Limits patience() { return {.deadline = Deadline::after(std::chrono::minutes(2)), .stop = {}}; }

struct Worker {
  double offered = 0, dropped = 0;  // gradients
  double seconds = 0;               // from the end of the warm-up to the last step
};

Worker train(const Case& which, int worker, comm::Group& group) {
  at::set_num_threads(1);
  const auto net = make_net();
  sync::Replica replica(
      {.replica = worker, .replicas = which.workers, .shards = which.workers, .mine = {worker, worker + 1}}, net, 1,
      {model::SgdOptions{.lr = 0.01}});
  const std::unique_ptr<sync::Strategy> strategy = sync::make_strategy(which.strategy, replica, group);
  const Rows rows = rows_of(worker);
  const bool straggles = which.last == Last::kStraggles && worker == which.workers - 1;
  strategy->begin(patience());
  Worker result;
  Clock::time_point start = Clock::now();
  for (std::int64_t step = 0; step < which.steps + kWarmUp;) {
    if (straggles) std::this_thread::sleep_for(kSleep);
    strategy->open(worker);
    loss_of(*net, rows).backward();
    strategy->close(1, 0);
    const sync::StepReport report = strategy->step(1, patience());
    ++result.offered;
    result.dropped += report.verdict == sync::Verdict::kDropped ? 1 : 0;
    if (step < kWarmUp && report.step >= kWarmUp) start = Clock::now();
    step = report.step;
  }
  result.seconds = seconds_since(start);
  strategy->leave(patience());
  require_same_state(replica, group, "The bench measured nothing", patience());
  return result;
}

// Passes a second of two workers that neither exchange nor update anything.
double measure_without_exchange(std::int64_t steps) {
  std::array<double, 2> seconds{};
  std::vector<std::jthread> threads;
  for (std::size_t worker = 0; worker < seconds.size(); ++worker) {
    threads.emplace_back([&, worker] {
      at::set_num_threads(1);
      const auto net = make_net();
      const Rows rows = rows_of(static_cast<int>(worker));
      Clock::time_point start = Clock::now();
      for (std::int64_t step = 0; step < steps + kWarmUp; ++step) {
        if (step == kWarmUp) start = Clock::now();
        net->zero_grad();
        loss_of(*net, rows).backward();
      }
      seconds[worker] = seconds_since(start);
    });
  }
  threads.clear();
  return static_cast<double>(steps) / std::max(seconds[0], seconds[1]);
}

std::vector<Worker> train_threads(const Case& which) {
  const auto groups = comm::make_local_group(which.workers);
  std::vector<Worker> workers(groups.size());
  Failures failures;
  std::vector<std::jthread> threads;
  for (int worker = 0; worker < which.workers; ++worker) {
    threads.emplace_back([&, worker] {
      const auto index = static_cast<std::size_t>(worker);
      try {
        workers[index] = train(which, worker, *groups[index]);
      } catch (const std::exception& error) {
        groups[index]->abort(error.what());
        failures.add(concat("worker ", worker), std::current_exception());
      }
    });
  }
  threads.clear();
  failures.rethrow();
  return workers;
}

std::vector<Worker> train_processes(const Case& which) {
  static int groups = 0;
  const std::string key = concat("straggler_bench/", ::getpid(), "/", ++groups);
  std::vector<Worker> workers;
  for (const std::vector<double>& numbers :
       run_forked(which.contender, which.workers, [&](int worker) -> std::vector<double> {
         const auto group =
             comm::make_host_group({.rank = worker, .size = which.workers, .key = key, .limits = patience()});
         const Worker result = train(which, worker, *group);
         return {result.offered, result.dropped, result.seconds};
       })) {
    workers.push_back({.offered = numbers.at(0), .dropped = numbers.at(1), .seconds = numbers.at(2)});
  }
  return workers;
}

Result measure(const Case& which) {
  const std::vector<Worker> workers = which.are == Workers::kThreads ? train_threads(which) : train_processes(which);
  double offered = 0, dropped = 0;
  for (const Worker& each : workers) {
    const bool is_fast = which.last == Last::kFast || &each != &workers.back();
    offered += is_fast ? each.offered : 0;
    dropped += is_fast ? each.dropped : 0;
  }
  return {.steps_a_second = static_cast<double>(which.steps) / workers.front().seconds,
          .dropped_percent = 100 * dropped / offered};
}

struct Turns {
  std::vector<double> steps_a_second, dropped_percent;
};

int run(Size size) {
  const bool is_full = size == Size::kFull;
  const std::int64_t many = is_full ? 1000 : 20, few = is_full ? 6 : 2;
  const int turns = is_full ? 5 : 1;
  const sync::SyncReplicasOptions two{.replicas_to_aggregate = 2};
  sync::SyncReplicasOptions protected_two = two;
  protected_two.on_death = sync::OnDeath::kGoOn;
  protected_two.standby = sync::Standby::kAnotherRank;
  const char *beside = "steps/s beside a straggler", *of_two = "steps/s of two";
  const std::vector<Case> cases{
      {beside, "tandem", 3, Workers::kThreads, Last::kStraggles, two, many},
      {beside, "two alone", 2, Workers::kThreads, Last::kFast, two, many},
      {beside, "replicated", 3, Workers::kThreads, Last::kStraggles, sync::ReplicatedOptions{}, few},
      {of_two, "tandem", 2, Workers::kThreads, Last::kFast, two, many},
      {of_two, "tandem, processes", 2, Workers::kProcesses, Last::kFast, two, many},
      {of_two, "tandem, standby", 2, Workers::kProcesses, Last::kFast, protected_two, many},
  };
  std::vector<Turns> measured(cases.size());
  std::vector<double> without_exchange;
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Result result = measure(cases[i]);
      measured[i].steps_a_second.push_back(result.steps_a_second);
      measured[i].dropped_percent.push_back(result.dropped_percent);
    }
    without_exchange.push_back(measure_without_exchange(many));
  }
  const auto print_median = [](const char* name, const char* contender, const char* unit,
                               const std::vector<double>& values) {
    print({.case_name = name,
           .contender = contender,
           .unit = unit,
           .value = Samples(values).quantile(0.5),
           .samples = values.size()});
  };
  for (std::size_t i = 0; i < cases.size(); ++i)
    print_median(cases[i].name, cases[i].contender, "1/s", measured[i].steps_a_second);
  print_median("dropped of the fast", cases.front().contender, "%", measured.front().dropped_percent);
  print_median(of_two, "no exchange", "1/s", without_exchange);
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
