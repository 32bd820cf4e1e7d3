#include "tandem/rl/rollout/rollout_worker.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/restarting_envs.h"

namespace tandem::rl {
namespace {

constexpr int kLimit = 5, kSteps = 12, kEnvs = 3;

// Counts its steps: the observation is the number of the step, the reward too; action 1 ends the task.
struct Counter {
  static Spec spec() {
    Spec spec;
    spec.id = "Counter-v0";
    spec.observation = {Leaf{.name = "obs", .type = ElementType::kFloat32, .shape = {1}, .low = {}, .high = {}}};
    spec.action = Discrete{2};
    spec.max_episode_steps = kLimit;
    return spec;
  }
  std::vector<float> reset(std::uint64_t) {
    step_ = 0;
    return {0.0F};
  }
  StepResult<std::vector<float>> step(std::int64_t action) {
    ++step_;
    return {
        .observation = {static_cast<float>(step_)}, .reward = static_cast<double>(step_), .terminated = action == 1};
  }
  int step_ = 0;
};

// Plays a fixed action in all environments; values are ten times the observation.
class Scripted final : public Actor {
 public:
  explicit Scripted(std::int64_t action) : action_(action) {}
  void refresh() override {}
  void act(const std::vector<at::Tensor>& observation, const at::Tensor&, const Decisions& out) override {
    evaluate(observation, {}, out.value);
    for (int row = 0; row < kEnvs; ++row) {
      out.discrete[row] = action_;
      out.log_prob[row] = -1.0F;
    }
  }
  void episodes_ended(std::span<const std::uint8_t> done) override {
    for (const std::uint8_t each : done) ended += each;
  }
  void evaluate(const std::vector<at::Tensor>& observation, const at::Tensor&, float* value) override {
    const at::Tensor flat = observation[0].contiguous();
    for (std::int64_t row = 0; row < flat.size(0); ++row) value[row] = 10 * flat.const_data_ptr<float>()[row];
  }
  [[nodiscard]] std::vector<std::byte> save() const override { return {std::byte{42}}; }
  void load(std::span<const std::byte> state) override { loaded = static_cast<int>(state.size()); }

  int ended = 0, loaded = 0;

 private:
  const std::int64_t action_;
};

struct World {
  explicit World(std::int64_t action, const NormalizerOptions& normalizer = {},
                 TimeLimit time_limit = TimeLimit::kBootstrap)
      : normalizers(Counter::spec(), normalizer),
        actor(new Scripted(action)),
        worker(std::make_unique<EnvGroupOf<Counter>>(kEnvs), std::unique_ptr<Actor>(actor),
               {.steps = kSteps, .gamma = 0.5, .time_limit = time_limit, .normalizer = normalizer}, 6) {
    worker.reset(1);
  }
  Normalizers normalizers;
  Scripted* actor;
  RolloutWorker worker;
};

TEST(RolloutWorkerTest, ObservationsFollowEachOtherAcrossFragmentsAndEpisodes) {
  World world(0);
  for (int fragment = 0; fragment < 3; ++fragment) {
    const Fragment& f = world.worker.collect(world.normalizers);
    for (int t = 0; t <= kSteps; ++t)
      EXPECT_EQ(f.observation[0][t][1].item<int>(), (fragment * kSteps + t) % kLimit) << t;
  }
}

// Cut into fragments of any lengths, the steps are the same, also where a normaliser lies between and after a load.
TEST(RolloutWorkerTest, AFragmentThatEndsEarlyIsGoneOnWithWhereItEnded) {
  for (const bool normalized : {false, true}) {
    World world(0, {.observations = normalized});
    const Normalizers& frozen = world.normalizers;
    int step = 0;
    for (const int steps : {1, 7, kSteps, 3, 2}) {
      world.worker.begin(frozen);
      for (int t = 0; t < steps; ++t) world.worker.step(frozen);
      const Fragment& f = world.worker.end();
      ASSERT_EQ(f.steps, steps);
      ASSERT_EQ(f.made(f.reward).size(0), steps);
      for (int t = 0; t < steps; ++t, ++step) {
        EXPECT_EQ(f.observation[0][t][1].item<int>(), step % kLimit) << step;
        EXPECT_EQ(f.done[t][1].item<int>(), (step + 1) % kLimit == 0 ? 1 : 0) << step;
      }
      EXPECT_EQ(f.observation[0][steps][1].item<int>(), step % kLimit);
      EXPECT_EQ(f.value[steps][1].item<float>(), 10.0F * static_cast<float>(step % kLimit));
    }
    EXPECT_EQ(world.worker.episodes().finished().size(), static_cast<std::size_t>(step / kLimit * kEnvs));
  }
}

// Slots of a queue, say. Whatever a fragment's memory held before, the steps go on where the last ones ended.
TEST(RolloutWorkerTest, FragmentsAreWrittenIntoTheMemoryThatIsGiven) {
  for (const bool normalized : {false, true}) {
    World given(0, {.observations = normalized}), own(0, {.observations = normalized});
    Fragment slots[] = {given.worker.make_fragment(), given.worker.make_fragment()};
    int step = 0;
    for (const int slot : {0, 1, 1, 0}) {
      Fragment& into = slots[slot];
      for (at::Tensor* tensor : {&into.observation[0], &into.reward, &into.value}) tensor->fill_(-7);
      given.worker.begin(given.normalizers, into);
      for (int t = 0; t < kSteps; ++t, ++step) given.worker.step(given.normalizers);
      EXPECT_EQ(&given.worker.end(), &into);
      const Fragment& expected = own.worker.collect(own.normalizers);
      EXPECT_TRUE(torch::equal(into.observation[0], expected.observation[0])) << step;
      EXPECT_TRUE(torch::equal(into.reward, expected.reward));
      EXPECT_TRUE(torch::equal(into.value, expected.value));
      EXPECT_TRUE(torch::equal(into.done, expected.done));
    }
    EXPECT_THROW(given.worker.step(given.normalizers), InvariantError) << "the memory was given until end()";
  }
}

TEST(RolloutWorkerTest, AFragmentHasAStepAndNoMoreThanItHasRoomFor) {
  World world(0);
  world.worker.begin(world.normalizers);
  EXPECT_THROW((void)world.worker.end(), InvariantError);
  for (int t = 0; t < kSteps; ++t) world.worker.step(world.normalizers);
  EXPECT_THROW(world.worker.step(world.normalizers), InvariantError);
}

TEST(RolloutWorkerTest, ATruncatedEpisodeIsBootstrappedFromItsLastObservation) {
  World world(0);
  const Fragment& f = world.worker.collect(world.normalizers);
  EXPECT_EQ(f.reward[3][0].item<float>(), 4.0F);
  EXPECT_EQ(f.reward[4][0].item<float>(), 5.0F + 0.5F * 10 * kLimit) << "reward and gamma * V(last observation)";
  EXPECT_EQ(f.done[4][0].item<int>(), 1);
  EXPECT_EQ(f.value[kSteps][0].item<float>(), 10.0F * (kSteps % kLimit));
}

TEST(RolloutWorkerTest, ATerminalTimeLimitIsWorthNothing) {
  World world(0, {}, TimeLimit::kTerminal);
  const Fragment& f = world.worker.collect(world.normalizers);
  EXPECT_EQ(f.reward[4][0].item<float>(), 5.0F);
  EXPECT_EQ(f.done[4][0].item<int>(), 1);
}

TEST(RolloutWorkerTest, ATaskThatEndedIsNotBootstrapped) {
  World world(1);
  const Fragment& f = world.worker.collect(world.normalizers);
  EXPECT_TRUE(torch::equal(f.reward, torch::ones({kSteps, kEnvs})));
  EXPECT_EQ(world.actor->ended, kEnvs + kSteps * kEnvs);  // reset() forgets what was before as well
}

TEST(RolloutWorkerTest, EpisodesAreCountedInTheEnvironmentsOwnRewards) {
  World world(0, {.rewards = true});
  (void)world.worker.collect(world.normalizers);
  const std::vector<Episode>& episodes = world.worker.episodes().finished();
  ASSERT_EQ(episodes.size(), 2u * kEnvs);
  for (const Episode& episode : episodes) {
    EXPECT_EQ(episode.episode_return, 1 + 2 + 3 + 4 + 5);
    EXPECT_EQ(episode.length, kLimit);
  }
  EXPECT_EQ(episodes.back().row, 6 + kEnvs - 1);
}

TEST(RolloutWorkerTest, NormalisersAreFrozenWithinAFragmentAndSeeEveryObservation) {
  World world(0, {.observations = true});
  const Fragment& first = world.worker.collect(world.normalizers);
  EXPECT_EQ(first.observation[0][3][0].item<float>(), 3.0F) << "variance 1 and mean 0 before anything is known";
  EXPECT_EQ(world.worker.moments().observation[0].count(), kSteps * kEnvs);
  world.normalizers.merge(world.worker.moments());
  world.normalizers.finish_merge();
  const Fragment& second = world.worker.collect(world.normalizers);
  EXPECT_LT(second.observation[0].mean().abs().item<float>(), 0.5F);
}

TEST(RolloutWorkerTest, AGroupThatCannotSaveStartsNewEpisodesAndSaysSo) {
  World world(0), other(0);
  (void)world.worker.collect(world.normalizers);
  const std::vector<std::byte> state = world.worker.save();
  EXPECT_EQ(other.worker.load(state, 7), RolloutWorker::Resumed::kWithNewEpisodes);
  EXPECT_EQ(other.actor->loaded, 1);
  EXPECT_EQ(other.worker.collect(other.normalizers).observation[0][0][0].item<int>(), 0);
}

struct SavedCounter : Counter {
  [[nodiscard]] std::vector<std::byte> save() const { return {std::byte{1}}; }
  std::vector<float> load(std::span<const std::byte>) { return {0.0F}; }
};

// Whose process was lost while the checkpoint was written, so that it has no state of the environments.
TEST(RolloutWorkerTest, AStateWithoutThatOfEnvironmentsThatCanBeSavedIsToldApart) {
  World world(0);
  RolloutWorker other(std::make_unique<EnvGroupOf<SavedCounter>>(kEnvs), std::make_unique<Scripted>(0),
                      {.steps = kSteps, .gamma = 0.5}, 6);
  EXPECT_EQ(other.load(world.worker.save(), 7), RolloutWorker::Resumed::kAfterALoss);
}

TEST(RolloutWorkerTest, AStateOfAGroupThatMadeEnvironmentsAnewStartsNewEpisodes) {
  const auto make = [](int count) { return std::make_unique<EnvGroupOf<SavedCounter>>(count); };
  const auto worker = [](std::unique_ptr<EnvGroup> group) {
    return std::make_unique<RolloutWorker>(std::move(group), std::make_unique<Scripted>(0),
                                           RolloutOptions{.steps = kSteps, .gamma = 0.5}, 6);
  };
  const auto plain = worker(make(kEnvs));
  const auto restarting = worker(std::make_unique<RestartingEnvs>(make, kEnvs, std::make_shared<RestartBudget>(3)));
  plain->reset(3);
  restarting->reset(3);
  EXPECT_EQ(restarting->load(plain->save(), 7), RolloutWorker::Resumed::kOfAnotherKind);
  EXPECT_EQ(plain->load(restarting->save(), 7), RolloutWorker::Resumed::kOfAnotherKind);
  EXPECT_EQ(plain->load(plain->save(), 7), RolloutWorker::Resumed::kExactly);
}

TEST(RolloutWorkerTest, EveryTruncationOfASavedStateIsRefused) {
  World world(0);
  const std::vector<std::byte> state = world.worker.save();
  for (std::size_t length = 0; length < state.size(); ++length) {
    EXPECT_THROW((void)world.worker.load(std::span<const std::byte>(state).first(length), 7), CheckpointError)
        << length;
  }
}

// Remembers how many steps of its episode it saw; values are a hundred times that.
class Remembering final : public Actor {
 public:
  void refresh() override {}
  void act(const std::vector<at::Tensor>& observation, const at::Tensor&, const Decisions& out) override {
    state_.add_(1);
    evaluate(observation, state_, out.value);
    std::fill_n(out.discrete, kEnvs, 0);
  }
  void episodes_ended(std::span<const std::uint8_t> done) override {
    for (std::size_t row = 0; row < done.size(); ++row) {
      if (done[row] != 0) state_[static_cast<std::int64_t>(row)].zero_();
    }
  }
  [[nodiscard]] at::Tensor state() const override { return state_; }
  void evaluate(const std::vector<at::Tensor>&, const at::Tensor& state, float* value) override {
    for (std::int64_t row = 0; row < state.size(0); ++row) value[row] = 100 * state[row][0].item<float>();
  }
  [[nodiscard]] std::vector<std::byte> save() const override { return {}; }
  void load(std::span<const std::byte>) override {}

 private:
  at::Tensor state_ = torch::full({kEnvs, 1}, 7.0F);
};

TEST(RolloutWorkerTest, StatesAreKeptWhereSequencesBeginAndWhereEpisodesAreCutShort) {
  RolloutWorker worker(std::make_unique<EnvGroupOf<Counter>>(kEnvs), std::make_unique<Remembering>(),
                       {.steps = kSteps, .gamma = 0.5, .sequences = {.length = 4}, .normalizer = {}}, 0);
  worker.reset(1);
  const Normalizers normalizers(Counter::spec(), {});
  for (int fragment = 0; fragment < 2; ++fragment) {
    const Fragment& f = worker.collect(normalizers);
    ASSERT_EQ(f.state.sizes(), at::IntArrayRef({3, kEnvs, 1}));
    for (int k = 0; k < 3; ++k)
      EXPECT_EQ(f.state[k][1].item<int>(), (fragment * kSteps + 4 * k) % kLimit) << fragment << " " << k;
    for (int t = 0; t < kSteps; ++t) {
      const int of_episode = (fragment * kSteps + t) % kLimit + 1;
      const int rest = of_episode == kLimit ? 50 * kLimit : 0;  // gamma * value, with what it remembered then
      EXPECT_EQ(f.reward[t][2].item<int>(), of_episode + rest) << fragment << " " << t;
    }
    const int steps_seen = (fragment + 1) * kSteps % kLimit;
    EXPECT_EQ(f.value[kSteps][0].item<int>(), 100 * steps_seen) << "the bootstrap starts from the last state";
  }
}

TEST(GroupWorkerTest, AGroupIsNamedByItsEnvironments) {
  EXPECT_EQ(name_of_group("CartPole-v1", 3, 4), "env group 3 (CartPole-v1, environments 12 to 15)");
  EXPECT_EQ(name_of_group("Slow-v0", 1, 1), "env group 1 (Slow-v0, environment 1)");
}

}  // namespace
}  // namespace tandem::rl
