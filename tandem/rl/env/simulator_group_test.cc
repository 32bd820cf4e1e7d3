#include "tandem/rl/env/simulator_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tandem/rl/env/check/env_check.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counters that begin anywhere and end at a multiple of ten; action 1 counts two, 2 throws, 3 gives NaN, and 4 shows a
// mark beyond its bounds. Two leaves: the number, and a mark. An option scales the reward.
class Counters {
 public:
  struct Options {
    double worth = 1;
  };
  static OptionsOf<Options> options() { return {{"worth", &Options::worth, "Of a step."}}; }
  static Spec spec() {
    return {.id = "Counters-v0",
            .observation = {{.name = "number", .shape = {1}},
                            {.name = "mark", .type = ElementType::kInt64, .low = {0}, .high = {9}}},
            .action = Discrete{5},
            .max_episode_steps = 6,
            .has_action_mask = true};
  }
  explicit Counters(int count) : numbers_(static_cast<std::size_t>(count)), worth_(numbers_.size()) {}

  void configure(std::size_t env, const Options& options) { worth_[env] = options.worth; }
  void reset(std::size_t env, NumpyGenerator& random, const ObservationRow& first) {
    numbers_[env] = random.integers(0, 1000);
    show(env, first);
  }
  void step(std::span<const std::int64_t> actions, const StepOfAll& out) {
    for (std::size_t env = 0; env < numbers_.size(); ++env) {
      if (actions[env] == 2) throw std::runtime_error("a gear broke");
      numbers_[env] += actions[env] == 1 ? 2 : 1;
      out.observation.leaf<float>()[env] = static_cast<float>(numbers_[env]);
      out.observation.leaf<std::int64_t>(1)[env] = actions[env] == 4 ? 10 : numbers_[env] % 10;
      out.reward[env] = actions[env] == 3 ? std::numeric_limits<double>::quiet_NaN() : worth_[env];
      if (numbers_[env] % 10 == 0) out.terminated[env] = 7;
    }
  }
  void action_mask(std::size_t env, std::span<std::uint8_t> allowed) const {
    std::ranges::fill(allowed, std::uint8_t{0});
    allowed[0] = 1;
    allowed[1] = numbers_[env] % 2 == 0 ? 1 : 0;
  }
  std::array<std::int64_t, 1> save(std::size_t env) const { return {numbers_[env]}; }
  void load(std::size_t env, std::span<const std::byte> state, const ObservationRow& now) {
    if (state.size() != 8) throw std::invalid_argument("a counter has 8 bytes");
    std::memcpy(&numbers_[env], state.data(), 8);
    show(env, now);
  }
  void render(std::size_t env, Canvas& canvas) const {
    canvas.view(0, 0, 1, 1);
    canvas.text({0.5, 0.5}, concat(numbers_[env]));
  }

 private:
  void show(std::size_t env, const ObservationRow& row) const {
    row.leaf<float>()[0] = static_cast<float>(numbers_[env]);
    row.leaf<std::int64_t>(1)[0] = numbers_[env] % 10;
  }
  std::vector<std::int64_t> numbers_;
  std::vector<double> worth_;
};

// The same, one by one.
struct CounterOfOne {
  using Shown = std::tuple<float, std::int64_t>;
  static Spec spec() { return Counters::spec(); }
  Shown reset(NumpyGenerator& random) {
    number = random.integers(0, 1000);
    return shown();
  }
  StepResult<Shown> step(std::int64_t action) {
    number += action == 1 ? 2 : 1;
    return {shown(), 1, number % 10 == 0};
  }
  void action_mask(std::span<std::uint8_t> allowed) const {
    std::ranges::fill(allowed, std::uint8_t{0});
    allowed[0] = 1;
    allowed[1] = number % 2 == 0 ? 1 : 0;
  }
  [[nodiscard]] Shown shown() const { return {static_cast<float>(number), number % 10}; }
  std::int64_t number = 0;
};

// All that a group writes, as numbers, in the order of environments.
std::vector<double> written(const EnvBuffers& buffers) {
  std::vector<double> all;
  for (std::size_t e = 0; e < buffers.rows(); ++e) {
    all.push_back(static_cast<double>(buffers.observation<float>(e)[0]));
    all.push_back(static_cast<double>(buffers.observation<std::int64_t>(e, 1)[0]));
    all.insert(all.end(), {buffers.reward()[e], double(buffers.terminated()[e]), double(buffers.truncated()[e])});
    if ((buffers.terminated()[e] | buffers.truncated()[e]) != 0)
      all.push_back(static_cast<double>(buffers.final_observation<float>(e)[0]));
  }
  for (const std::uint8_t entry : buffers.action_mask()) all.push_back(double(entry));
  return all;
}

constexpr std::size_t kEnvs = 7;
std::vector<std::uint64_t> seeds() { return {1, 2, 3, 4, 5, 6, 7}; }
std::vector<std::int64_t> actions_of(int step, const EnvBuffers& buffers) {
  std::vector<std::int64_t> actions(kEnvs);
  for (std::size_t e = 0; e < kEnvs; ++e)
    actions[e] = (static_cast<std::size_t>(step) + e) % 3 == 0 && buffers.action_mask()[5 * e + 1] != 0 ? 1 : 0;
  return actions;
}

TEST(SimulatorGroupTest, ManyAtOnceDoWhatSingleEnvironmentsDo) {
  const auto many = simulator_group<Counters>(kEnvs);
  EnvGroupOf<CounterOfOne> single(kEnvs);
  const EnvBuffers a(*many), b(single);
  many->reset(seeds(), a.arrays());
  single.reset(seeds(), b.arrays());
  EXPECT_EQ(written(a), written(b));
  int ends = 0;
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::int64_t> actions = actions_of(i, b);
    many->step({.discrete = actions.data()}, a.arrays());
    single.step({.discrete = actions.data()}, b.arrays());
    ASSERT_EQ(written(a), written(b)) << "step " << i;
    for (const std::uint8_t end : b.terminated()) ends += end;
  }
  EXPECT_GT(ends, 10);
}

TEST(SimulatorGroupTest, ASavedGroupGoesOnWhereItWas) {
  const auto group = simulator_group<Counters>(kEnvs, {{"worth", "uniform(1, 2)"}});
  const EnvBuffers a(*group);
  group->reset(seeds(), a.arrays());
  const auto step = [](EnvGroup& its, const EnvBuffers& buffers, int number) {
    const std::vector<std::int64_t> actions = actions_of(number, buffers);
    its.step({.discrete = actions.data()}, buffers.arrays());
  };
  for (int i = 0; i < 9; ++i) step(*group, a, i);
  const std::vector<std::byte> state = group->save();
  const auto other = simulator_group<Counters>(kEnvs, {{"worth", "uniform(1, 2)"}});
  const EnvBuffers b(*other);
  other->reset(std::vector<std::uint64_t>(kEnvs, 9), b.arrays());
  other->load(state, b.arrays());
  for (int i = 9; i < 40; ++i) {
    step(*group, a, i);
    step(*other, b, i);
    ASSERT_EQ(written(a), written(b)) << "step " << i;
  }
  const auto smaller = simulator_group<Counters>(2, {{"worth", "uniform(1, 2)"}});
  const EnvBuffers c(*smaller);
  EXPECT_THROW(smaller->load(state, c.arrays()), CheckpointError);
  EXPECT_THROW(group->load(std::span(state).first(state.size() - 3), a.arrays()), CheckpointError);
}

TEST(SimulatorGroupTest, EachEpisodeHasItsOwnOptions) {
  const auto group = simulator_group<Counters>(2, {{"worth", "uniform(1, 2)"}});
  const EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  const std::vector<std::int64_t> actions{0, 0};
  group->step({.discrete = actions.data()}, buffers.arrays());
  EXPECT_NE(buffers.reward()[0], buffers.reward()[1]);
  EXPECT_GE(buffers.reward()[0], 1);
  EXPECT_LE(buffers.reward()[0], 2);
}

TEST(SimulatorGroupTest, FaultsNameTheEnvironmentAndWhatItDid) {
  const auto error_of = [](const std::vector<std::int64_t>& actions) {
    const auto group = simulator_group<Counters>(2);
    const EnvBuffers buffers(*group);
    group->reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
    try {
      group->step({.discrete = actions.data()}, buffers.arrays());
    } catch (const EnvError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(error_of({0, 2}), "Counters-v0: in step() of all 2 environments: a gear broke");
  EXPECT_EQ(error_of({0, 3}), "Counters-v0: environment 1 of 2 in step 1 of its episode: its reward is nan");
  EXPECT_EQ(error_of({4, 0}),
            "Counters-v0: environment 0 of 2 in step 1 of its episode: element 0 of its observation leaf 'mark' is 10; "
            "the spec says 0 .. 9");
  EXPECT_THAT(error_of({0, 9}), HasSubstr("environment 1 was given action 9"));
}

TEST(SimulatorGroupTest, TheLastMomentIsDrawnBeforeTheNextEpisode) {
  const auto group = simulator_group<Counters>(1);
  const EnvBuffers buffers(*group);
  std::string last;
  group->watch_ends([&](int env) {
    Canvas canvas;
    group->render(env, canvas);
    last = std::get<drawing::Text>(canvas.shapes().at(0)).text;
  });
  group->reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  const std::int64_t action = 0;
  while (last.empty()) group->step({.discrete = &action}, buffers.arrays());
  EXPECT_EQ(std::stof(last), buffers.final_observation<float>(0)[0]);
}

// Takes numbers where its spec says choices, has a mask that its spec does not announce, and lists a metric.
struct Unfit {
  static Spec spec() {
    return {.id = "Unfit-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}, .metrics = {{.name = "far"}}};
  }
  explicit Unfit(int) {}
  void reset(std::size_t, NumpyGenerator&, const ObservationRow& first) { first.leaf<float>()[0] = 0; }
  void step(std::span<const float>, const StepOfAll&) {}
  void action_mask(std::size_t, std::span<std::uint8_t>) const {}
};
// Writes another type than its spec says.
struct WrongType {
  static Spec spec() { return {.id = "WrongType-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}}; }
  explicit WrongType(int) {}
  void reset(std::size_t, NumpyGenerator&, const ObservationRow& first) { first.leaf<std::uint8_t>()[0] = 0; }
  void step(std::span<const std::int64_t>, const StepOfAll&) {}
};

TEST(SimulatorGroupTest, AClassThatDoesNotFitItsSpecIsRefused) {
  try {
    (void)simulator_group<Unfit>(1);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.faults(),
                ElementsAre(HasSubstr("step() must take std::span<const std::int64_t>"),
                            HasSubstr("its spec must set has_action_mask"), HasSubstr("its spec lists metrics")));
  }
  const auto group = simulator_group<WrongType>(1);
  const EnvBuffers buffers(*group);
  try {
    group->reset(std::vector<std::uint64_t>{1}, buffers.arrays());
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_THAT(error.what(), HasSubstr("writes to observation leaf 'obs' as uint8 of 1 bytes; its spec says obs"));
  }
  EXPECT_THROW((void)simulator_group<Counters>(0), ConfigError);
}

// An EnvGroup of a user's own, as a whole.
class Still final : public EnvGroup {
 public:
  explicit Still(int count) : count_(count) {}
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return count_; }
  void reset(std::span<const std::uint64_t>, const EnvArrays&) override {}
  void step(const EnvActions&, const EnvArrays&) override {}
  [[nodiscard]] bool can_save() const override { return false; }
  [[nodiscard]] std::vector<std::byte> save() const override { return {}; }
  void load(std::span<const std::byte>, const EnvArrays&) override {}

 private:
  const int count_;
  const Spec spec_{.id = "Still-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}};
};

TEST(SimulatorGroupTest, ARegistryTakesEveryKindByTheSameCall) {
  EnvRegistry registry;
  registry.add<Counters>();
  registry.add<Still>();
  EXPECT_EQ(registry.make("Counters-v0", 5)->size(), 5);
  EXPECT_EQ(registry.make("Still-v0", 3)->size(), 3);
  EXPECT_EQ(registry.options("Counters-v0").size(), 1u);
  registry.set_options("Counters-v0", {{"worth", "3"}});
  const auto group = registry.make("Counters-v0", 1);
  const EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  const std::int64_t action = 0;
  group->step({.discrete = &action}, buffers.arrays());
  EXPECT_EQ(buffers.reward()[0], 3);
}

// Carts that share a variable, by mistake: what the first one does moves the others.
struct Shared {
  static Spec spec() {
    return {.id = "Shared-v0", .observation = {{.shape = {1}}}, .action = Box{{-1}, {1}}, .max_episode_steps = 20};
  }
  explicit Shared(int count) : x(static_cast<std::size_t>(count)) {}
  void reset(std::size_t env, NumpyGenerator& random, const ObservationRow& first) {
    first.leaf<float>()[0] = x[env] = static_cast<float>(random.uniform(-1, 1));
  }
  void step(std::span<const float> actions, const StepOfAll& out) {
    for (std::size_t env = 0; env < x.size(); ++env) {
      x[env] += 0.1F * actions[0];
      out.observation.leaf<float>()[env] = x[env];
      out.reward[env] = static_cast<double>(-std::abs(x[env]));
    }
  }
  std::vector<float> x;
};

TEST(SimulatorGroupTest, ACheckFindsEnvironmentsOfAGroupThatShareState) {
  EnvRegistry registry;
  registry.add<Shared>();
  const EnvCheck check = check_env(registry, "Shared-v0", {.steps = 200});
  ASSERT_EQ(check.findings.size(), 2u);
  EXPECT_THAT(check.findings[0].text, HasSubstr("environment 3 of 4 differs at step 1 when others of its group"));
  EXPECT_EQ(check.findings[1].kind, "save");
}

}  // namespace
}  // namespace tandem::rl
