// A pipeline of eight threads wired as a run of IMPALA is: batches lie in leased slots, which workers write and loaders
// read, and weights are published. What ThreadSanitizer looks at; elsewhere, whether anybody reads what another writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/concurrency/thread_team.h"
#include "tandem/pipeline/learner_pipeline.h"
#include "tandem/pipeline/published.h"

namespace tandem::pipeline {
namespace {

constexpr int kWorkers = 5, kLoaders = 2, kPasses = 2, kBatchesEach = 200;  // and a learner: eight threads
constexpr std::size_t kNumbers = 256, kQueue = 3;

using Memory = std::array<std::int64_t, kNumbers>;

struct Slot {
  SlotPool::Lease lease;
};

// Who writes a slot: its worker, or half of it a thread beside that.
enum class Writers { kWorker, kTwo };

// All numbers of a batch are one, its worker's and of the weights that it was made with.
class EightThreads {
 public:
  using Pipeline = LearnerPipeline<Slot, Memory*, std::int64_t>;

  explicit EightThreads(Writers writers) {
    for (int worker = 0; writers == Writers::kTwo && worker < kWorkers; ++worker)
      sides_.push_back(std::make_unique<ThreadTeam>("side", SpinBudget{}));
    std::vector<Memory*> buffers;
    for (Memory& buffer : buffers_) buffers.push_back(&buffer);
    pipeline_.emplace(PipelineOptions{.workers = kWorkers,
                                      .queue = kQueue,
                                      .loaders = kLoaders,
                                      .passes = kPasses,
                                      .first_passes = kPasses,
                                      .results = 4},
                      std::move(buffers),
                      Pipeline::Work{.produce = [this](int worker) { return produce(worker); },
                                     .load = [this](Slot& slot, Memory* into) { load(slot, *into); },
                                     .learn = [this](Memory* batch, const LearnStep&) { return learn(*batch); }},
                      0, stats);
  }

  Pipeline& pipeline() { return *pipeline_; }
  [[nodiscard]] std::size_t idle_slots() const { return leases_.idle(); }
  [[nodiscard]] std::size_t slots() const { return leases_.size(); }

  std::atomic<int> torn{0};  // batches or weights of which not all numbers were the same
  PipelineStats stats;

 private:
  std::int64_t whole(const Memory& memory) {
    if (!std::all_of(memory.begin(), memory.end(), [&](std::int64_t each) { return each == memory[0]; })) ++torn;
    return memory[0];
  }

  std::optional<Tagged<Slot>> produce(int worker) {
    const auto index = static_cast<std::size_t>(worker);
    if (made_[index]++ == kBatchesEach) return std::nullopt;
    std::optional<SlotPool::Lease> lease = leases_.try_acquire();
    TANDEM_CHECK(lease.has_value(), "no slot");
    Memory& memory = slots_[lease->index()];
    std::int64_t version = 0;
    {
      const auto reading = weights_.read();
      version = reading.version();
      if (whole(reading.value()) != version) ++torn;
    }
    const auto middle = memory.begin() + kNumbers / 2;
    auto second_half = [&](int) { std::fill(middle, memory.end(), 1000 * version + worker); };
    if (!sides_.empty()) sides_[index]->start(second_half);
    std::fill(memory.begin(), middle, 1000 * version + worker);
    if (sides_.empty()) {
      second_half(0);
    } else {
      sides_[index]->wait();
    }
    return Tagged<Slot>{.data = {.lease = std::move(*lease)}, .tag = {.version = version, .samples = kNumbers}};
  }

  void load(Slot& slot, Memory& into) {
    into = slots_[slot.lease.index()];
    slot.lease.give_back();
  }

  std::int64_t learn(const Memory& batch) {
    const std::int64_t from = whole(batch);
    ++steps_;
    weights_.publish(steps_, [this](Memory& copy) { copy.fill(steps_); });
    return from % 1000;
  }

  std::array<int, kWorkers> made_{};
  std::array<Memory, kQueue + kWorkers + kLoaders> slots_{};
  SlotPool leases_{kQueue + kWorkers + kLoaders};
  std::array<Memory, 3> buffers_{};
  Published<Memory> weights_{kWorkers, [] { return Memory{}; }};
  std::int64_t steps_ = 0;
  std::vector<std::unique_ptr<ThreadTeam>> sides_;
  std::optional<Pipeline> pipeline_;  // last: its threads use the rest
};

class EightThreadsTest : public ::testing::TestWithParam<Writers> {};

TEST_P(EightThreadsTest, EveryBatchIsReadAsItWasWritten) {
  EightThreads run(GetParam());
  std::array<int, kWorkers> learned{};
  while (const std::optional<std::int64_t> worker = run.pipeline().next()) ++learned[static_cast<std::size_t>(*worker)];
  for (const int each : learned) EXPECT_EQ(each, kPasses * kBatchesEach);
  EXPECT_EQ(run.torn, 0);
  EXPECT_EQ(run.idle_slots(), run.slots());
  EXPECT_EQ(run.stats.report().samples_trained, kPasses * run.stats.report().samples_sampled);
}

TEST_P(EightThreadsTest, LeftWhileAllAreAtWorkItLosesNoSlot) {
  auto run = std::make_unique<EightThreads>(GetParam());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(run->pipeline().next().has_value());
  int rest = 0;
  run->pipeline().drain(Deadline::after(std::chrono::seconds(60)), [&](std::int64_t) { ++rest; });
  EXPECT_EQ((100 + rest) % kPasses, 0) << "what was begun is learned from";
  EXPECT_EQ(run->idle_slots(), run->slots());
  EXPECT_EQ(run->torn, 0);
  run = std::make_unique<EightThreads>(GetParam());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(run->pipeline().next().has_value());
  run.reset();  // in the middle
}

INSTANTIATE_TEST_SUITE_P(Writing, EightThreadsTest, ::testing::Values(Writers::kWorker, Writers::kTwo),
                         [](const auto& test) { return test.param == Writers::kTwo ? "TwoASlot" : "OneASlot"; });

}  // namespace
}  // namespace tandem::pipeline
