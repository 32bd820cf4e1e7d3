// IMPALA and APPO with several replicas of the learner, when an environment, a rollout worker, a loader or a replica
// throws or hangs: at whatever instant, the run ends within its deadline, no thread is left and no batch is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/testing/address_sanitizer.h"
#include "tandem/base/testing/armed_fault.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kReplicas = 2, kBatches = 40, kFragmentSteps = 4;
constexpr std::chrono::seconds kStallLimit{3};
// Of a call that comes back: the run has failed by then, and still waits.
constexpr std::chrono::milliseconds kLateReturn = kStallLimit + std::chrono::milliseconds(1500);
constexpr std::chrono::seconds kAllEnds{60};  // far below the waits for the learner's batches and of its replicas

enum class Victim { kEnvironment, kRolloutWorker, kLoader, kReplica };
enum class Mishap { kThrows, kComesBack, kHangs };

// One call of many goes wrong.
class Saboteur {
 public:
  Saboteur(Mishap mishap, int instant) : mishap_(mishap), instant_(instant) {}

  void pass() {
    if (calls_.fetch_add(1) != instant_) return;
    happened_.release();
    if (mishap_ == Mishap::kThrows) throw DataError("seeded");
    const bool returns = mishap_ == Mishap::kComesBack;
    (void)never_.pop({}, returns ? Deadline::after(kLateReturn) : Deadline::infinite());
  }
  [[nodiscard]] bool await() { return happened_.try_acquire_for(kAllEnds); }
  void let_go() { never_.close(); }

 private:
  const Mishap mishap_;
  const int instant_;
  std::atomic<int> calls_{0};
  std::binary_semaphore happened_{0};
  BoundedQueue<int> never_{1};
};

class SabotagedEnvs final : public testing::WrappedEnvs {
 public:
  SabotagedEnvs(std::unique_ptr<EnvGroup> inner, Saboteur& saboteur)
      : WrappedEnvs(std::move(inner)), saboteur_(saboteur) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    saboteur_.pass();
    WrappedEnvs::step(actions, out);
  }

 private:
  Saboteur& saboteur_;
};

class SabotagedPolicy final : public ActorCritic {
 public:
  SabotagedPolicy(const Spec& spec, at::Generator generator, Saboteur* saboteur)
      : ActorCritic(spec),
        saboteur_(saboteur),
        inner_(register_module(
            "inner", std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{.hidden = {8}}, std::move(generator)))) {}
  PolicyOutput forward(const Observation& observation) override {
    if (saboteur_ != nullptr) saboteur_->pass();
    return inner_->forward(observation);
  }

 private:
  Saboteur* const saboteur_;
  const std::shared_ptr<MlpPolicy> inner_;
};

// A small run of random shape with one mishap at a random instant.
class SabotagedRun {
 public:
  SabotagedRun(std::uint64_t seed, Victim victim, Mishap mishap)
      : random_(seed, static_cast<std::uint64_t>(victim)), victim_(victim), mishap_(mishap) {
    setup_.seed = seed;
    setup_.rng = model::RngOrder::kUnordered;  // other runs of this process draw while they are built
    setup_.shards = kReplicas * (1 + below(2));
    setup_.devices.assign(kReplicas, c10::Device(c10::kCPU));
    ImpalaOptions& impala = setup_.impala;
    impala.workers = 1 + below(3);
    impala.num_envs = impala.workers * setup_.shards;
    impala.rollout_steps = kFragmentSteps;
    impala.queue = 1 + below(3);
    impala.buffers = 2;
    impala.loaders = 1 + below(2);
    impala.passes = 1 + below(2);
    impala.batches_per_update = 1 + below(8);
    impala.kernel = LossKernel::kOff;
    impala.stall_timeout = kStallLimit.count();
    if (below(4) == 0) impala.max_policy_lag = below(4);
    impala.splits = 1 + below(2);
    impala.num_envs *= impala.splits;
    if (below(2) == 0) setup_.appo = AppoOptions{.target_update_steps = 1 + below(3)};
    setup_.total_steps = kBatches * impala.batch_rows();
    // Environments are stepped kFragmentSteps times as often as batches are made, and policies asked once more.
    instant_ = below(victim == Victim::kEnvironment || victim == Victim::kRolloutWorker ? 100 : 30);
    saboteur_.emplace(mishap, instant_);
    build();
  }

  /// Whatever its test found, nothing of it is left to the next one.
  ~SabotagedRun() {
    if (owner_.joinable()) owner_.join();
    let_go();
  }
  SabotagedRun(const SabotagedRun&) = delete;
  SabotagedRun& operator=(const SabotagedRun&) = delete;

  /// Until the mishap.
  void start() {
    if (victim_ == Victim::kLoader) {
      fault_.emplace(Fault{.point = "impala.load",
                           .passage = instant_ + 1,
                           .kind = mishap_ == Mishap::kThrows ? FaultKind::kThrow : FaultKind::kHang});
    }
    run_ = std::make_unique<ImpalaRun>(setup_);
    owner_ = std::jthread([this] { own(); });
    if (victim_ != Victim::kLoader) {
      ASSERT_TRUE(saboteur_->await()) << "the run has ended before its instant";
      return;
    }
    if (mishap_ == Mishap::kThrows) return;
    ASSERT_TRUE(eventually([] { return hanging_at_faults() == 1; }));
    if (mishap_ == Mishap::kHangs) return;
    std::this_thread::sleep_for(kLateReturn);
    fault_.reset();
  }

  /// To its end.
  void expect_end() {
    const Clock::time_point begun = Clock::now();
    owner_.join();
    EXPECT_LT(Clock::now() - begun, kAllEnds);
    EXPECT_THAT(failure_, HasSubstr(name()));
    EXPECT_EQ(hung_, mishap_ == Mishap::kHangs) << failure_;
    EXPECT_EQ(late_, mishap_ != Mishap::kThrows) << failure_;
    if (mishap_ == Mishap::kThrows) {
      EXPECT_THAT(failure_, AnyOf(HasSubstr("seeded"), HasSubstr("a fault was injected at impala.load")));
    } else {
      EXPECT_THAT(failure_, HasSubstr("in one call: "));
      EXPECT_THAT(failure_, AnyOf(HasSubstr("came so far, the last from rollout worker"), HasSubstr("none came")));
    }
    if (mishap_ != Mishap::kHangs) {
      for (const ImpalaRun::Places& places : {run_->queue_slots(), run_->buffers()})
        EXPECT_EQ(places.idle + places.waiting + places.held, places.all);
    }
    let_go();
    run_.reset();
  }

 private:
  // What hangs comes back.
  void let_go() {
    saboteur_->let_go();
    fault_.reset();
  }

  int below(int end) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(end))); }

  // Policies are built for the learner's replicas, for APPO's target beside each, and then for the workers.
  void build() {
    setup_.make_envs = [this](int count) -> std::unique_ptr<EnvGroup> {
      std::unique_ptr<EnvGroup> envs = EnvRegistry::native().make("CartPole-v1", count);
      if (victim_ != Victim::kEnvironment) return envs;
      return std::make_unique<SabotagedEnvs>(std::move(envs), *saboteur_);
    };
    const int learners = (setup_.appo ? 2 : 1) * kReplicas, replica = below(kReplicas);
    setup_.make_policy = [this, learners, replica, built = 0](const Spec& spec, at::Generator generator) mutable {
      const int number = built++;
      const bool is_victim = (victim_ == Victim::kReplica && number == replica) ||
                             (victim_ == Victim::kRolloutWorker && number >= learners);
      return std::make_shared<SabotagedPolicy>(spec, std::move(generator), is_victim ? &*saboteur_ : nullptr);
    };
  }

  void own() {
    try {
      while (run_->env_steps() < setup_.total_steps || !run_->all_reported()) (void)run_->update();
    } catch (const std::exception& error) {
      failure_ = error.what();
      hung_ = dynamic_cast<const HungThread*>(&error) != nullptr;
      late_ = dynamic_cast<const DeadlineExceeded*>(&error) != nullptr;
    }
  }

  [[nodiscard]] const char* name() const {
    if (victim_ == Victim::kLoader) return "loader ";
    return victim_ == Victim::kReplica ? "learner" : "rollout ";
  }

  Philox random_;
  const Victim victim_;
  const Mishap mishap_;
  int instant_ = 0;
  std::optional<Saboteur> saboteur_;
  ImpalaSetup setup_;
  std::unique_ptr<ImpalaRun> run_;
  std::optional<ArmedFault> fault_;  // at most one run at a time has one
  std::string failure_;
  bool hung_ = false, late_ = false;
  std::jthread owner_;
};

// Of the pipeline and of the learner. A joined thread is listed until the kernel is done with it.
int threads_of_runs() {
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    for (const char* of : {"rollout", "envs", "loader", "learner", "replica"}) threads += name.starts_with(of) ? 1 : 0;
  }
  return threads;
}

class ImpalaFaultsTest : public ::testing::TestWithParam<Victim> {
 protected:
#ifdef TANDEM_ADDRESS_SANITIZER
  static constexpr std::uint64_t kSeeds = 20;  // times four victims
#else
  static constexpr std::uint64_t kSeeds = 50;
#endif

  // One run at a time is under way; those in which something hangs wait for their ends together.
  static void together(const std::vector<Mishap>& mishaps, Victim victim) {
    std::vector<std::jthread> waiting;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const Mishap mishap = mishaps[seed % mishaps.size()];
      auto run = std::make_shared<SabotagedRun>(seed, victim, mishap);
      run->start();
      const auto end = [run, seed] {
        SCOPED_TRACE(seed);
        run->expect_end();
      };
      if (mishap == Mishap::kThrows || victim == Victim::kLoader) {
        end();
      } else {
        waiting.emplace_back(end);
      }
    }
  }
};

TEST_P(ImpalaFaultsTest, EndARunWithinItsDeadlineAndLoseNothing) {
  using enum Mishap;
  // Which loader passes a fault point belongs to the process, so those that hang do it one after the other.
  const std::vector<Mishap> few{kThrows, kThrows, kComesBack, kThrows, kThrows,
                                kHangs,  kThrows, kThrows,    kThrows, kThrows};
  together(GetParam() == Victim::kLoader ? few : std::vector<Mishap>{kThrows, kComesBack, kHangs}, GetParam());
  EXPECT_TRUE(eventually([] { return threads_of_runs() == 0; }));
}

std::string name_of(const ::testing::TestParamInfo<Victim>& test) {
  switch (test.param) {
    case Victim::kEnvironment:
      return "Environments";
    case Victim::kRolloutWorker:
      return "RolloutWorkers";
    case Victim::kLoader:
      return "Loaders";
    case Victim::kReplica:
      return "Replicas";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Of, ImpalaFaultsTest,
                         ::testing::Values(Victim::kEnvironment, Victim::kRolloutWorker, Victim::kLoader,
                                           Victim::kReplica),
                         name_of);

}  // namespace
}  // namespace tandem::rl
