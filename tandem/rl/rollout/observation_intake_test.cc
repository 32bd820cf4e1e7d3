// Observations of float64 on their way to a policy: what rollouts of one agent and of several make of them.
#include "tandem/rl/rollout/observation_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cmath>

#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/one_agent_group.h"
#include "tandem/rl/rollout/multi_agent_worker.h"
#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kClocks = 3, kClockSteps = 12, kClockLimit = 5;
constexpr double kClockTick = 0.01;

// The clock of a process that goes on over episodes, from a begin that the seed decides, and the step of the episode.
struct WallClock {
  using Shown = std::pair<std::array<double, 2>, float>;
  static Spec spec() {
    return {
        .id = "WallClock-v0",
        .observation = {{.name = "clock", .type = ElementType::kFloat64, .shape = {2}}, {.name = "step", .shape = {}}},
        .action = Discrete{2},
        .max_episode_steps = kClockLimit};
  }
  Shown reset(std::uint64_t) {
    steps = 0;
    return shown();
  }
  StepResult<Shown> step(std::int64_t) {
    ++ticks;
    ++steps;
    return {.observation = shown(), .reward = 1};
  }
  [[nodiscard]] Shown shown() const { return {{start + kClockTick * ticks, odd}, static_cast<float>(steps)}; }
  [[nodiscard]] std::array<int, 2> save() const { return {ticks, steps}; }
  Shown load(std::span<const std::byte> state) {
    std::memcpy(&ticks, state.data(), sizeof ticks);
    std::memcpy(&steps, state.data() + sizeof ticks, sizeof steps);
    return shown();
  }
  int ticks = 0, steps = 0;
  static inline double start, odd;
};

// Values are the first number of the first leaf, which must be of float32.
class FirstNumber final : public Actor {
 public:
  void refresh() override {}
  void act(const std::vector<at::Tensor>& observation, const at::Tensor&, const Decisions& out) override {
    evaluate(observation, {}, out.value);
    std::fill_n(out.discrete, kClocks, 0);
    std::fill_n(out.log_prob, kClocks, -1.0F);
  }
  void episodes_ended(std::span<const std::uint8_t>) override {}
  void evaluate(const std::vector<at::Tensor>& observation, const at::Tensor&, float* value) override {
    const at::Tensor flat = observation[0].contiguous();
    for (std::int64_t row = 0; row < flat.size(0); ++row) value[row] = flat.const_data_ptr<float>()[2 * row];
  }
  [[nodiscard]] std::vector<std::byte> save() const override { return {}; }
  void load(std::span<const std::byte>) override {}
};

class ObservationIntakeTest : public ::testing::Test {
 protected:
  ObservationIntakeTest() {
    WallClock::start = 1.7e9;
    WallClock::odd = 0;
  }
  std::unique_ptr<RolloutWorker> worker(bool normalized) {
    options.normalizer.observations = normalized;
    auto its = std::make_unique<RolloutWorker>(std::make_unique<EnvGroupOf<WallClock>>(kClocks),
                                               std::make_unique<FirstNumber>(), options, 0);
    its->reset(1);
    return its;
  }
  // The same of an environment with several agents.
  std::unique_ptr<MultiAgentWorker> worker_of_several(bool normalized) {
    options.normalizer.observations = normalized;
    std::vector<PolicySeat> seats;
    seats.push_back({.agents = {0}, .spec = WallClock::spec(), .actor = std::make_unique<FirstNumber>()});
    auto its = std::make_unique<MultiAgentWorker>(
        std::make_unique<OneAgentGroup>(std::make_unique<EnvGroupOf<WallClock>>(kClocks)), std::move(seats), options,
        0);
    its->reset(1);
    return its;
  }
  static void merge(Normalizers& normalizers, const RolloutWorker& from) {
    normalizers.merge(from.moments());
    normalizers.finish_merge();
  }

  std::shared_ptr<Remarks> remarks = std::make_shared<Remarks>();
  RolloutOptions options{.steps = kClockSteps, .gamma = 0.5, .gae_lambda = 0.8, .remarks = remarks};
};

TEST_F(ObservationIntakeTest, NormalisedNumbersAreToldApartThatFloat32DoesNotTellApart) {
  const auto of_clocks = worker(true);
  RolloutWorker& clocks = *of_clocks;
  Normalizers normalizers(WallClock::spec(), options.normalizer);
  (void)clocks.collect(normalizers);
  merge(normalizers, clocks);
  const RunningMoments seen = clocks.moments().observation[0];
  EXPECT_NEAR(seen.mean()[0], 1.7e9 + kClockTick * (kClockSteps + 1) / 2, 1e-6);
  const Fragment& f = clocks.collect(normalizers);
  ASSERT_EQ(f.observation[0].scalar_type(), at::kFloat);
  for (int t = 0; t <= kClockSteps; ++t) {
    const double raw = 1.7e9 + kClockTick * (kClockSteps + t);
    const double expected = (raw - seen.mean()[0]) / std::sqrt(seen.variance(0) + options.normalizer.epsilon);
    EXPECT_NEAR(f.observation[0][t][1][0].item<double>(), std::min(expected, 10.0), 1e-4) << t;
  }
  EXPECT_THAT(remarks->take(), IsEmpty());
}

TEST_F(ObservationIntakeTest, WithoutANormaliserTheyAreNarrowedAndOtherLeavesStay) {
  WallClock::start = 0.1;
  const auto of_clocks = worker(false);
  RolloutWorker& clocks = *of_clocks;
  const Normalizers none(WallClock::spec(), {});
  for (int fragment = 0; fragment < 2; ++fragment) {
    const Fragment& f = clocks.collect(none);
    for (int t = 0; t <= kClockSteps; ++t) {
      const double clock = 0.1 + kClockTick * (fragment * kClockSteps + t);
      EXPECT_EQ(f.observation[0][t][2][0].item<float>(), static_cast<float>(clock)) << t;
      EXPECT_EQ(f.observation[1][t][2].item<int>(), (fragment * kClockSteps + t) % kClockLimit) << t;
    }
    // Where the time limit ended an episode, the value of what it showed last, the next clock, is part of the reward.
    const int cut = fragment == 0 ? kClockLimit - 1 : 2;
    const auto last = static_cast<float>(0.1 + kClockTick * (fragment * kClockSteps + cut + 1));
    EXPECT_EQ(f.reward[cut][0].item<float>(), 1 + 0.5F * last);
  }
}

// The oracle: agents of several have the numbers that one has alone, at ends of episodes too.
TEST_F(ObservationIntakeTest, AgentsOfSeveralSeeThemAsOneDoes) {
  for (const bool normalized : {false, true}) {
    const auto of_alone = worker(normalized);
    RolloutWorker& alone = *of_alone;
    const auto of_several = worker_of_several(normalized);
    MultiAgentWorker& several = *of_several;
    std::vector<Normalizers> normalizers{Normalizers(WallClock::spec(), options.normalizer)};
    for (int fragment = 0; fragment < 3; ++fragment) {
      (void)alone.collect(normalizers[0]);
      several.collect(normalizers);
      compute_gae(alone.fragment(), 0.5, 0.8);
      Fragment &expected = alone.fragment(), &its = several.fragment(0);
      for (const std::size_t leaf : {0, 1})
        EXPECT_TRUE(at::equal(expected.made(expected.observation[leaf]).flatten(0, 1),
                              its.made(its.observation[leaf]).flatten(0, 1)));
      EXPECT_TRUE(at::equal(expected.made(expected.reward).flatten(), its.made(its.reward).flatten()));
      EXPECT_TRUE(at::equal(expected.made(expected.advantage).flatten(), its.made(its.advantage).flatten()));
      merge(normalizers[0], alone);
    }
  }
}

TEST_F(ObservationIntakeTest, AResumedWorkerGoesOnExactly) {
  const auto of_first = worker(true), of_second = worker(true);
  RolloutWorker &first = *of_first, &second = *of_second;
  Normalizers normalizers(WallClock::spec(), options.normalizer);
  (void)first.collect(normalizers);
  merge(normalizers, first);
  EXPECT_EQ(second.load(first.save(), 9), GroupWorker::Resumed::kExactly);
  const Fragment &a = first.collect(normalizers), &b = second.collect(normalizers);
  EXPECT_TRUE(at::equal(a.observation[0], b.observation[0]));
}

TEST_F(ObservationIntakeTest, WhatNarrowingLosesIsSaidOnceWithLeafElementAndNumbers) {
  options.steps = 1024 / kClocks + 1;
  const auto of_clocks = worker(false);
  RolloutWorker& clocks = *of_clocks;
  const Normalizers none(WallClock::spec(), {});
  (void)clocks.collect(none);
  EXPECT_THAT(remarks->take(),
              ElementsAre(AllOf(HasSubstr("WallClock-v0"), HasSubstr("leaf 'clock'"),
                                HasSubstr("its element 0 moved by 2.85 around 1.7e+09 in the first 1024 rows"),
                                HasSubstr("float32 has steps of 128"), HasSubstr("normalize.observations: true"))));
  (void)clocks.collect(none);
  EXPECT_THAT(remarks->take(), IsEmpty());
  WallClock::start = 0;
  const auto of_fine = worker(false);
  RolloutWorker& fine = *of_fine;
  (void)fine.collect(none);
  EXPECT_THAT(remarks->take(), IsEmpty()) << "float32 has ten thousand steps there";
}

TEST_F(ObservationIntakeTest, BoundsThatFloat32DividesIntoTooFewStepsAreSaidAtOnce) {
  Spec spec = WallClock::spec();
  spec.observation[0].low = {1.7e9, -1};
  spec.observation[0].high = {1.7e9 + 3600, 1};
  const ObservationIntake normalized(spec, true, remarks);
  EXPECT_THAT(remarks->take(), IsEmpty());
  const ObservationIntake narrowed(spec, false, remarks);
  EXPECT_THAT(remarks->take(), ElementsAre(AllOf(HasSubstr("between the bounds 1.7e+09 and 1.7e+09 of its element 0"),
                                                 HasSubstr("steps of 128"))));
  spec.observation[0].high[0] = 1.8e9;
  spec.observation[0].low[1] = -INFINITY;
  const ObservationIntake wide(spec, false, remarks);
  EXPECT_THAT(remarks->take(), IsEmpty());
}

TEST_F(ObservationIntakeTest, ANumberBeyondFloat32IsNamedOrCutByTheNormaliser) {
  WallClock::odd = -1e39;
  const Normalizers none(WallClock::spec(), {});
  EXPECT_THAT(
      message_of<EnvError>([&] { (void)worker(false)->collect(none); }),
      AllOf(HasSubstr("element 1 of the observation leaf 'clock' is -1e+39 in row 0"), HasSubstr("beyond float32")));
  const auto of_clocks = worker(true);
  RolloutWorker& clocks = *of_clocks;
  const Normalizers normalizers(WallClock::spec(), options.normalizer);
  EXPECT_EQ(clocks.collect(normalizers).observation[0][3][0][1].item<float>(), -10.0F);
}

}  // namespace
}  // namespace tandem::rl
