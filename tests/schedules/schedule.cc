#include "tests/schedules/schedule.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::schedules {
namespace {

struct Counts : torch::nn::Module {
  explicit Counts(std::int64_t workers) { register_parameter("counts", torch::zeros({workers})); }
};

Limits patience() { return within(std::chrono::seconds(60)); }

int between(Philox& random, int least, int most) {
  return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least) + 1));
}

Worker draw_worker(Philox& random, bool is_first) {
  Worker worker;
  if (!is_first && random.below(3) == 0) worker.comes_after_ms = between(random, 1, 5);
  worker.step_us = random.below(4) == 0 ? between(random, 500, 2000) : between(random, 0, 100);
  const int lives = between(random, 1, 3);
  for (int life = 0; life < lives; ++life)
    worker.lives.push_back({.gradients = between(random, 0, 12), .end = static_cast<End>(random.below(3))});
  return worker;
}

// Worker `k` offers a gradient.
sync::StepReport offer(const Schedule& schedule, int k, sync::Replica& replica, sync::VariableLink& link,
                       const Limits& limits) {
  std::this_thread::sleep_for(std::chrono::microseconds(schedule.workers[static_cast<std::size_t>(k)].step_us));
  model::FlatParameters::Gradients gradients = replica.parameters().make_gradients(
      [](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
  gradients.views[0][0][k] = 1;
  gradients.presence[0].fill_(1);
  return link.exchange({.replica = k,
                        .learning_rate = replica.optimizer().learning_rate(),
                        .tally = {.weight = 1, .shards = 1, .rate = 1}},
                       &gradients, limits);
}

}  // namespace

Schedule draw(std::uint64_t number) {
  Philox random(number);
  const int workers = between(random, 2, 6);
  const int aggregate = between(random, 1, workers + 2);
  const sync::Tokens tokens = random.below(4) == 0 ? sync::Tokens::kShared : sync::Tokens::kOwn;
  const auto acceptance = random.below(4) == 0 ? sync::Acceptance::kPerVariable : sync::Acceptance::kWhole;
  Schedule schedule;
  schedule.options = {.replicas_to_aggregate = aggregate,
                      .acceptance = acceptance,
                      .tokens = tokens,
                      .rate_scaling = sync::RateScaling::kByGradients,
                      .on_death = sync::OnDeath::kGoOn};
  for (int worker = 0; worker < workers; ++worker) schedule.workers.push_back(draw_worker(random, worker == 0));
  return schedule;
}

// A step of n gradients moves by rate * (n / aggregate) * (sum / n), which is the sum.
sync::Replica make_replica(int worker, const Schedule& schedule) {
  const int workers = static_cast<int>(schedule.workers.size());
  return {{.replica = worker, .replicas = workers, .shards = workers, .mine = {worker, worker + 1}},
          std::make_shared<Counts>(workers),
          1,
          {model::SgdOptions{.lr = static_cast<double>(*schedule.options.replicas_to_aggregate)}}};
}

std::shared_ptr<sync::SyncVariables> make_variables(const Schedule& schedule) {
  sync::Replica like = make_replica(0, schedule);
  auto variables = std::make_shared<sync::SyncVariables>(like, schedule.options);
  for (int worker = 0; worker < static_cast<int>(schedule.workers.size()); ++worker)
    if (schedule.workers[static_cast<std::size_t>(worker)].comes_after_ms > 0) variables->leave(worker);
  return variables;
}

Account& Account::operator+=(const Account& other) {
  offered += other.offered;
  dropped += other.dropped;
  uncertain += other.uncertain;
  deaths += other.deaths;
  return *this;
}

Account play(const Schedule& schedule, int worker, const Life& life, const Connect& connect, const Die& die) {
  sync::Replica replica = make_replica(worker, schedule);
  const std::unique_ptr<sync::VariableLink> link = connect(replica);
  link->resume(patience());
  Account account;
  for (int i = 0; i < life.gradients; ++i) {
    const sync::StepReport outcome = offer(schedule, worker, replica, *link, patience());
    ++account.offered;
    account.dropped += outcome.verdict == sync::Verdict::kDropped ? 1 : 0;
  }
  if (life.end == End::kLeave) {
    link->depart(sync::state_of(replica), patience());
    return account;
  }
  account.deaths = 1;
  account.uncertain = life.end == End::kDieWaiting ? 1 : 0;
  die(account, *link, [&](const Limits& limits) {
    if (life.end == End::kDieWaiting) (void)offer(schedule, worker, replica, *link, limits);
  });
  return account;
}

std::vector<double> values_of(sync::SyncVariables& variables, const Schedule& schedule) {
  sync::Replica last = make_replica(0, schedule);
  variables.store(last);
  const at::Tensor values = last.parameters().buffers()[0].values.to(at::kDouble);
  const auto* element = values.const_data_ptr<double>();
  return {element, element + static_cast<int>(schedule.workers.size())};
}

std::string faults(const Schedule& schedule, const std::vector<Account>& accounts,
                   const std::vector<sync::GradientTotals>& totals, const std::vector<double>& values) {
  std::string faults;
  std::int64_t deaths = 0, in_flight = 0;
  for (std::size_t k = 0; k < accounts.size(); ++k) {
    const Account& mine = accounts[k];
    const sync::GradientTotals& its = totals[k];
    deaths += mine.deaths;
    in_flight += its.in_flight();
    const auto expect = [&](bool holds, const char* what) {
      if (holds) return;
      faults += concat("worker ", k, ": ", what, ": offered ", its.offered, ", applied ", its.applied, ", dropped ",
                       its.dropped, "; it knows of ", mine.offered, " and ", mine.dropped, " dropped, and of ",
                       mine.uncertain, " without an answer; the values have ", -values[k], "\n");
    };
    expect(its.offered >= mine.offered && its.offered <= mine.offered + mine.uncertain, "other gradients were counted");
    expect(its.dropped >= mine.dropped && its.dropped <= mine.dropped + mine.uncertain, "others were dropped");
    expect(its.in_flight() >= 0, "more came out than in");
    expect(std::abs(values[k] + static_cast<double>(its.applied)) < 1e-2, "others were applied");
  }
  if (deaths == 0 && in_flight != 0) faults += concat(in_flight, " gradients are in flight, and nobody died\n");
  if (in_flight >= *schedule.options.replicas_to_aggregate) faults += concat(in_flight, " gradients make no step\n");
  return faults;
}

}  // namespace tandem::schedules
