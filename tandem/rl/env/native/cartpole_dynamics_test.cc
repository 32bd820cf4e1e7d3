#include "tandem/rl/env/native/cartpole_dynamics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace tandem::rl {
namespace {

// Columns and results of some carts.
struct Batch {
  explicit Batch(std::size_t count)
      : x(count),
        x_dot(count),
        theta(count),
        theta_dot(count),
        reward(count),
        observation(4 * count),
        actions(count),
        terminated(count) {}

  void step(std::size_t begin, std::size_t count, InstructionSet set = detect_instruction_set()) {
    cart_step_of(set)(count, &actions[begin], {&x[begin], &x_dot[begin], &theta[begin], &theta_dot[begin]},
                      &observation[4 * begin], &reward[begin], &terminated[begin]);
  }

  std::vector<double> x, x_dot, theta, theta_dot, reward;
  std::vector<float> observation;
  std::vector<std::int64_t> actions;
  std::vector<std::uint8_t> terminated;
};

Batch random_batch(std::size_t count, double largest_angle) {
  std::mt19937_64 random(7);
  const auto within = [&](double most) { return std::uniform_real_distribution<double>(-most, most)(random); };
  Batch batch(count);
  for (std::size_t e = 0; e < count; ++e) {
    batch.x[e] = within(2.5);
    batch.x_dot[e] = within(3);
    batch.theta[e] = within(largest_angle);
    batch.theta_dot[e] = within(3);
    batch.actions[e] = static_cast<std::int64_t>(random() % 2);
  }
  return batch;
}

// The equations as they stand in gymnasium's CartPoleEnv.step(), one cart, with the C library's sine and cosine.
std::array<double, 4> one_step(const Batch& carts, std::size_t e) {
  const double force = carts.actions[e] == 1 ? 10.0 : -10.0, sine = std::sin(carts.theta[e]),
               cosine = std::cos(carts.theta[e]);
  const double push = (force + 0.05 * (carts.theta_dot[e] * carts.theta_dot[e]) * sine) / 1.1;
  const double turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * (cosine * cosine) / 1.1));
  const double acceleration = push - 0.05 * turn * cosine / 1.1;
  return {carts.x[e] + 0.02 * carts.x_dot[e], carts.x_dot[e] + 0.02 * acceleration,
          carts.theta[e] + 0.02 * carts.theta_dot[e], carts.theta_dot[e] + 0.02 * turn};
}

void expect_as_one_by_one(double largest_angle, double tolerance) {
  const std::size_t count = 10'003;
  const Batch before = random_batch(count, largest_angle);
  Batch after = before;
  after.step(0, count);
  int ended = 0;
  for (std::size_t e = 0; e < count; ++e) {
    const std::array<double, 4> expected = one_step(before, e);
    const std::array<double, 4> state{after.x[e], after.x_dot[e], after.theta[e], after.theta_dot[e]};
    for (std::size_t v = 0; v < 4; ++v) {
      ASSERT_NEAR(state[v], expected[v], tolerance) << "cart " << e << ", variable " << v;
      ASSERT_EQ(after.observation[4 * e + v], static_cast<float>(state[v])) << "cart " << e << ", variable " << v;
    }
    const bool out = std::abs(state[0]) > kCartPoleEdge || std::abs(state[2]) > kCartPoleFallen;
    ASSERT_EQ(after.terminated[e], out ? 1 : 0) << e;
    ASSERT_EQ(after.reward[e], 1.0);
    ended += after.terminated[e];
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, static_cast<int>(count));
}

TEST(CartPoleDynamicsTest, MovesEachCartAsTheEquationsDo) { expect_as_one_by_one(0.21, 2e-15); }

// A state that was set or loaded can have any angle.
TEST(CartPoleDynamicsTest, TakesAnyAngle) { expect_as_one_by_one(40, 2e-15); }

void expect_same_bits(const Batch& one, const Batch& other) {
  EXPECT_EQ(one.theta_dot, other.theta_dot);
  EXPECT_EQ(one.theta, other.theta);
  EXPECT_EQ(one.x_dot, other.x_dot);
  EXPECT_EQ(one.x, other.x);
  EXPECT_EQ(one.observation, other.observation);
  EXPECT_EQ(one.terminated, other.terminated);
}

TEST(CartPoleDynamicsTest, HasTheSameBitsForAnyNumberOfCarts) {
  const std::size_t count = 61;
  Batch together = random_batch(count, 0.4), apart = together;
  together.step(0, count);
  for (std::size_t begin = 0, size = 1; begin < count; begin += size, ++size)
    apart.step(begin, std::min(size, count - begin));
  expect_same_bits(together, apart);
}

TEST(CartPoleDynamicsTest, HasTheSameBitsWithAnyInstructions) {
  const Batch before = random_batch(10'003, 0.4);
  Batch portable = before;
  portable.step(0, before.x.size(), InstructionSet::kPortable);
  for (const InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > detect_instruction_set()) continue;
    SCOPED_TRACE(name_of(set));
    Batch wide = before;
    wide.step(0, before.x.size(), set);
    expect_same_bits(portable, wide);
  }
}

}  // namespace
}  // namespace tandem::rl
