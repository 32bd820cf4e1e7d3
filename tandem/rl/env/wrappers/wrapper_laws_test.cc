// Laws of every wrapper, around every environment that it fits: those of Tandem's own, and some that are made for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>

#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/restarting_envs.h"
#include "tandem/rl/env/testing/sound.h"
#include "tandem/rl/env/testing/tally.h"
#include "tandem/rl/env/testing/wrapped_envs.h"

namespace tandem::rl {
namespace {

// A group that cannot step by rows.
struct PlainTally final : testing::WrappedEnvs {
  explicit PlainTally(int count) : WrappedEnvs(std::make_unique<EnvGroupOf<testing::Tally>>(count)) {
    spec_ = WrappedEnvs::spec();
    spec_.id = "PlainTally-v0";
  }
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  Spec spec_;
};

// Steps all of its environments at once.
class Crowd {
 public:
  explicit Crowd(int count) : places_(static_cast<std::size_t>(count)) {}
  static Spec spec() {
    return {.id = "Crowd-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}, .max_episode_steps = 11};
  }
  void reset(std::size_t env, NumpyGenerator& random, const ObservationRow& first) {
    places_[env] = random.random();
    first.leaf<float>()[0] = static_cast<float>(places_[env]);
  }
  void step(std::span<const std::int64_t> actions, const StepOfAll& out) {
    for (std::size_t e = 0; e < places_.size(); ++e) {
      places_[e] += actions[e] == 0 ? -0.25 : 0.125;
      out.observation.leaf<float>()[e] = static_cast<float>(places_[e]);
      out.reward[e] = places_[e];
      out.terminated[e] = std::abs(places_[e]) > 2;
    }
  }
  [[nodiscard]] std::array<double, 1> save(std::size_t env) const { return {places_[env]}; }
  void load(std::size_t env, std::span<const std::byte> state, const ObservationRow& now) {
    std::memcpy(&places_[env], state.data(), sizeof(double));
    now.leaf<float>()[0] = static_cast<float>(places_[env]);
  }

 private:
  std::vector<double> places_;
};

// MuJoCo's tasks are structs like others: one of them will do.
bool is_tried(const EnvEntry& entry) { return entry.origin != "tandem, MuJoCo" || entry.spec.id == "Hopper-v5"; }

EnvRegistry all_environments() {
  EnvRegistry environments = EnvRegistry::native();
  environments.add<testing::Tally>();
  environments.add<testing::Pictures>();
  environments.add<testing::Sound>();
  environments.add<PlainTally>();
  environments.add<Crowd>();
  return environments;
}

using Chain = std::vector<std::string>;

const std::vector<Chain>& chains() {
  static const std::vector<Chain> all = {
      {"frame_skip=3"},
      {"frame_skip=2:max"},
      {"sticky_actions=0.3"},
      {"time_limit=4"},
      {"reward_scale=0.5"},
      {"reward_clip=-0.5..0.25"},
      {"reward_clip=sign"},
      {"rescale_action"},
      {"frame_stack=3"},
      {"frame_stack=2:zero"},
      {"flatten"},
      {"rescale_observation"},
      {"grey"},
      {"resize=3"},
      {"channels_first"},
      {"channels_last"},
      {"sticky_actions=0.25", "frame_skip=2", "time_limit=3", "frame_stack=2", "flatten"},
      {"time_limit=4", "frame_skip=3", "sticky_actions=0.5", "reward_clip=1"},
      {"grey", "resize=4x3", "frame_stack=3", "reward_scale=2", "rescale_observation"}};
  return all;
}

// Steps a group by actions that follow from the environment's number in the whole and the step, and keeps all bytes
// that it writes for each.
class Rows {
 public:
  Rows(std::unique_ptr<EnvGroup> group, std::size_t first)
      : group_(std::move(group)), buffers_(*group_), first_(first) {}

  std::vector<std::string> reset() {
    std::vector<std::uint64_t> seeds;
    for (std::size_t e = 0; e < buffers_.rows(); ++e) seeds.push_back(100 + first_ + e);
    group_->reset(seeds, buffers_.arrays());
    return shown(false);
  }
  std::vector<std::string> step(std::size_t t) {
    choose(t);
    group_->step(actions(), buffers_.arrays());
    return shown(true);
  }
  std::vector<std::string> step_rows(std::size_t t, std::span<const RowStep> rows) {
    choose(t);
    stepped_by_row(*group_)->step_rows(rows, actions(), buffers_.arrays());
    return shown(true);
  }
  std::vector<std::string> load(std::span<const std::byte> state) {
    group_->load(state, buffers_.arrays());
    return shown(false);
  }
  [[nodiscard]] EnvGroup& group() { return *group_; }
  [[nodiscard]] bool ended(std::size_t e) const { return has_ended(e); }

 private:
  [[nodiscard]] bool has_ended(std::size_t e) const {
    return (buffers_.terminated()[e] | buffers_.truncated()[e]) != 0;
  }
  [[nodiscard]] EnvActions actions() const {
    return std::holds_alternative<Box>(group_->spec().action) ? EnvActions{.box = box_.data()}
                                                              : EnvActions{.discrete = discrete_.data()};
  }
  void choose(std::size_t t) {
    const Spec& spec = group_->spec();
    const auto elements = static_cast<std::size_t>(action_elements(spec.action));
    const std::vector<std::int64_t> options = choices_of(spec.action);
    discrete_.clear(), box_.clear();
    for (std::size_t i = 0; i < buffers_.rows() * elements; ++i) {
      const std::size_t number = (i + first_ * elements) * 7919 + t * 104'729;
      if (options.empty()) {
        const Box& box = std::get<Box>(spec.action);
        const double share = static_cast<double>(number % 1009) / 1008;
        box_.push_back(
            static_cast<float>(box.low[i % elements] + share * (box.high[i % elements] - box.low[i % elements])));
      } else {
        discrete_.push_back(static_cast<std::int64_t>(number / 3 % static_cast<std::size_t>(options[i % elements])));
      }
    }
  }
  // Rows of final observations and metrics count where an episode ended.
  std::vector<std::string> shown(bool stepped) {
    const Spec& spec = group_->spec();
    const EnvArrays& arrays = buffers_.arrays();
    std::vector<std::string> all(buffers_.rows());
    const auto add = [&](std::size_t e, const void* memory, std::size_t bytes) {
      all[e].append(static_cast<const char*>(memory) + e * bytes, bytes);
    };
    const auto options = static_cast<std::size_t>(mask_elements(spec.action));
    for (std::size_t e = 0; e < all.size(); ++e) {
      for (std::size_t l = 0; l < spec.observation.size(); ++l)
        add(e, arrays.observation[l], spec.observation[l].bytes());
      if (spec.has_action_mask) add(e, arrays.action_mask, options);
      if (!stepped) continue;
      add(e, arrays.reward, sizeof(double));
      add(e, arrays.terminated, 1);
      add(e, arrays.truncated, 1);
      if (!has_ended(e)) continue;
      for (std::size_t l = 0; l < spec.observation.size(); ++l)
        add(e, arrays.final_observation[l], spec.observation[l].bytes());
      add(e, arrays.metrics, spec.metrics.size() * sizeof(double));
    }
    return all;
  }

  std::unique_ptr<EnvGroup> group_;
  EnvBuffers buffers_;
  const std::size_t first_;
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_;
};

// Calls law(make) with a function that makes wrapped groups, for each chain and each environment that it fits.
template <typename Law>
void for_all(const Law& law) {
  const EnvRegistry environments = all_environments();
  std::map<Chain, std::set<std::string>> fits;
  for (const EnvEntry& entry : environments.entries()) {
    if (!is_tried(entry)) continue;
    for (const Chain& chain : chains()) {
      EnvRegistry its = environments;
      try {
        its.set_wrappers(entry.spec.id, chain);
      } catch (const ConfigError&) {
        continue;
      }
      fits[chain].insert(entry.spec.id);
      SCOPED_TRACE(entry.spec.id + " with " + joined(chain));
      law([&](int count) { return its.make(entry.spec.id, count); });
      if (::testing::Test::HasFailure()) return;
    }
  }
  for (const Chain& chain : chains()) EXPECT_FALSE(fits[chain].empty()) << joined(chain) << " fits no environment";
}

constexpr std::size_t kSteps = 40;

TEST(WrapperLawsTest, EnvironmentsDoNotDependOnTheirGroup) {
  for_all([](const auto& make) {
    Rows together(make(4), 0);
    std::vector<std::unique_ptr<Rows>> parts;
    parts.push_back(std::make_unique<Rows>(make(1), 0));
    parts.push_back(std::make_unique<Rows>(make(3), 1));
    for (std::size_t t = 0; t <= kSteps; ++t) {
      const auto whole = t == 0 ? together.reset() : together.step(t);
      std::vector<std::string> apart;
      for (const auto& part : parts) {
        const auto its = t == 0 ? part->reset() : part->step(t);
        apart.insert(apart.end(), its.begin(), its.end());
      }
      ASSERT_EQ(whole, apart) << "step " << t;
    }
  });
}

TEST(WrapperLawsTest, ASavedStateGoesOnWithTheSameBits) {
  for_all([](const auto& make) {
    Rows first(make(3), 0), second(make(3), 0);
    ASSERT_TRUE(first.group().can_save());
    (void)first.reset();
    for (std::size_t t = 1; t < 6; ++t) (void)first.step(t);
    const auto state = first.group().save();
    (void)second.reset();
    (void)second.step(1);
    (void)second.load(state);
    EXPECT_EQ(second.group().save(), state);
    for (std::size_t t = 6; t <= kSteps; ++t) ASSERT_EQ(first.step(t), second.step(t)) << "step " << t;
  });
}

TEST(WrapperLawsTest, ALoadedStateShowsWhatWasSeenLast) {
  for_all([](const auto& make) {
    Rows first(make(2), 0), second(make(2), 0);
    (void)first.reset();
    for (std::size_t t = 1; t < 9; ++t) (void)first.step(t);
    const auto state = first.group().save();
    // The group shows it again, too.
    ASSERT_EQ(second.load(state), first.load(state));
    ASSERT_EQ(first.step(9), second.step(9));
  });
}

TEST(WrapperLawsTest, BytesThatAreCutOffAreRefused) {
  for_all([](const auto& make) {
    Rows rows(make(2), 0);
    (void)rows.reset();
    const auto state = rows.group().save();
    for (const std::size_t left : {std::size_t{0}, std::size_t{5}, state.size() / 2, state.size() - 1})
      EXPECT_THROW((void)rows.load(std::span(state).first(left)), CheckpointError) << left << " of " << state.size();
    EXPECT_NO_THROW((void)rows.reset());
  });
}

TEST(WrapperLawsTest, AResetBeginsAnew) {
  for_all([](const auto& make) {
    Rows used(make(2), 0), fresh(make(2), 0);
    (void)used.reset();
    for (std::size_t t = 1; t < 6; ++t) (void)used.step(t);
    // Tally counts its episodes over resets.
    if (used.group().spec().id.find("Tally") != std::string::npos) return;
    ASSERT_EQ(used.reset(), fresh.reset());
    for (std::size_t t = 1; t < 6; ++t) ASSERT_EQ(used.step(t), fresh.step(t));
  });
}

// What an environment shows does not depend on how long others rest beside it.
TEST(WrapperLawsTest, EnvironmentsThatRestStayAsTheyAre) {
  for_all([](const auto& make) {
    Rows rows(make(2), 0), alone(make(1), 0);
    if (stepped_by_row(rows.group()) == nullptr) return;
    auto before = rows.reset();
    (void)alone.reset();
    for (std::size_t t = 1; t < 12; ++t) {
      const std::array<RowStep, 2> which{RowStep::kStep, RowStep::kRest};
      const auto now = rows.step_rows(t, which);
      ASSERT_EQ(now[0], alone.step(t)[0]) << "step " << t;
      if (t > 1) {
        ASSERT_EQ(now[1], before[1]) << "step " << t;
      }
      before = now;
    }
  });
}

TEST(WrapperLawsTest, ALastStepEndsTheEpisode) {
  for_all([](const auto& make) {
    Rows rows(make(2), 0);
    if (stepped_by_row(rows.group()) == nullptr) return;
    (void)rows.reset();
    const std::array<RowStep, 2> which{RowStep::kLastStep, RowStep::kStep};
    (void)rows.step_rows(1, which);
    EXPECT_TRUE(rows.ended(0));
  });
}

// Where environments tell of ends at all.
TEST(WrapperLawsTest, EveryEndIsToldOnce) {
  for_all([](const auto& make) {
    Rows rows(make(2), 0);
    if (!rows.group().can_render()) return;
    std::array<int, 2> told{}, seen{};
    rows.group().watch_ends([&](int env) {
      ++told.at(static_cast<std::size_t>(env));
      Canvas canvas;
      rows.group().render(env, canvas);
    });
    (void)rows.reset();
    for (std::size_t t = 1; t <= kSteps; ++t) {
      (void)rows.step(t);
      for (std::size_t e = 0; e < 2; ++e) seen.at(e) += static_cast<int>(rows.ended(e));
    }
    EXPECT_EQ(told, seen);
  });
}

// Around them, not within: a failure makes the wrappers of one environment anew, too.
TEST(WrapperLawsTest, RestartingEnvironmentsShowTheSame) {
  for_all([](const auto& make) {
    Rows plain(make(3), 0),
        restarting(std::make_unique<RestartingEnvs>(make, 3, std::make_shared<RestartBudget>(0)), 0);
    ASSERT_EQ(plain.reset(), restarting.reset());
    for (std::size_t t = 1; t <= kSteps; ++t) ASSERT_EQ(plain.step(t), restarting.step(t)) << "step " << t;
  });
}

// final_observation and metrics may not be wanted. What else is shown does not depend on it.
TEST(WrapperLawsTest, ArraysThatAreNotWantedAreLeftOut) {
  for_all([](const auto& make) {
    const auto group = make(2), other = make(2);
    EnvBuffers buffers(*group), whole(*other);
    EnvArrays arrays = buffers.arrays();
    arrays.final_observation.clear();
    arrays.metrics = nullptr;
    const std::vector<std::uint64_t> seeds{1, 2};
    group->reset(seeds, arrays);
    other->reset(seeds, whole.arrays());
    const auto elements = static_cast<std::size_t>(action_elements(group->spec().action)) * 2;
    const std::vector<std::int64_t> discrete(elements, 1);
    const std::vector<float> box(elements, 0.5F);
    const bool is_box = std::holds_alternative<Box>(group->spec().action);
    const EnvActions actions = is_box ? EnvActions{.box = box.data()} : EnvActions{.discrete = discrete.data()};
    for (int t = 0; t < 30; ++t) {
      group->step(actions, arrays);
      other->step(actions, whole.arrays());
      for (std::size_t l = 0; l < arrays.observation.size(); ++l) {
        const std::size_t bytes = group->spec().observation[l].bytes() * 2;
        EXPECT_EQ(std::memcmp(arrays.observation[l], whole.arrays().observation[l], bytes), 0) << t << " " << l;
      }
      for (std::size_t e = 0; e < 2; ++e) {
        EXPECT_EQ(buffers.reward()[e], whole.reward()[e]) << t;
        EXPECT_EQ(buffers.terminated()[e], whole.terminated()[e]) << t;
        EXPECT_EQ(buffers.truncated()[e], whole.truncated()[e]) << t;
      }
    }
  });
}

}  // namespace
}  // namespace tandem::rl
