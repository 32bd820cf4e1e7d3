// A draw of a replay part in vectors of its own, and its comparison with the whole past.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/rl/replay/testing/past.h"

namespace tandem::rl {

/// Everything that sample() gives.
struct Draw {
  Draw(ReplayPart& part, const Spec& spec, std::int64_t rows, double beta = 0) : leaves(part.leaves()) {
    const auto count = static_cast<std::size_t>(rows);
    const auto elements = static_cast<std::size_t>(action_elements(spec.action));
    const auto masks = static_cast<std::size_t>(spec.has_action_mask ? mask_elements(spec.action) : 0);
    const bool is_box = std::holds_alternative<Box>(spec.action);
    discrete.resize(is_box ? 0 : count * elements);
    box.resize(is_box ? count * elements : 0);
    for (auto* numbers : {&reward, &discount, &weight}) numbers->resize(count);
    for (auto* mask : {&action_mask, &next_action_mask}) mask->resize(count * masks);
    row.resize(count);
    SampleArrays into;
    for (const Leaf& leaf : leaves) {
      observation.emplace_back(count * leaf.bytes());
      next.emplace_back(count * leaf.bytes());
    }
    for (auto& bytes : observation) into.observation.push_back(bytes.data());
    for (auto& bytes : next) into.next_observation.push_back(bytes.data());
    into.discrete = is_box ? nullptr : discrete.data();
    into.box = is_box ? box.data() : nullptr;
    into.reward = reward.data();
    into.discount = discount.data();
    into.action_mask = masks > 0 ? action_mask.data() : nullptr;
    into.next_action_mask = masks > 0 ? next_action_mask.data() : nullptr;
    into.weight = weight.data();
    into.row = row.data();
    part.sample(rows, into, beta);
  }

  [[nodiscard]] Past::Bytes observation_of(std::size_t i, std::size_t leaf) const {
    return cut(observation[leaf].data(), i, leaves[leaf].bytes());
  }
  [[nodiscard]] Past::Bytes next_of(std::size_t i, std::size_t leaf) const {
    return cut(next[leaf].data(), i, leaves[leaf].bytes());
  }
  [[nodiscard]] static Past::Bytes cut(const void* all, std::size_t i, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(all) + i * bytes;
    return {from, from + bytes};
  }
  friend bool operator==(const Draw&, const Draw&) = default;

  std::vector<Leaf> leaves;
  std::vector<Past::Bytes> observation, next;
  std::vector<std::int64_t> discrete;
  std::vector<float> box;
  std::vector<double> reward, discount, weight;
  std::vector<std::uint8_t> action_mask, next_action_mask;
  std::vector<std::int64_t> row;
};

/// Bytes of float64 numbers as float32.
[[nodiscard]] inline Past::Bytes narrowed(const Past::Bytes& wide) {
  Past::Bytes narrow(wide.size() / 2);
  for (std::size_t i = 0; i < wide.size() / sizeof(double); ++i) {
    double number = 0;
    std::memcpy(&number, wide.data() + i * sizeof(double), sizeof(double));
    const auto less = static_cast<float>(number);
    std::memcpy(narrow.data() + i * sizeof(float), &less, sizeof(float));
  }
  return narrow;
}

/// Expects row i of the draw to be what the past says of its number, by the definition of n-step returns.
inline void expect_as_in(const Past& past, const ReplayOptions& options, const Draw& draw, std::size_t i) {
  const std::int64_t number = draw.row[i];
  SCOPED_TRACE(testing::Message() << "row " << number << " of " << past.envs() << " environments, now " << past.now());
  ASSERT_LE(number / past.envs() + options.n_step, past.now());
  double sum = 0;
  std::int64_t steps = 0;
  const Past::Row* last = nullptr;
  do {
    last = &past.row(number + steps * past.envs());
    sum += std::pow(options.gamma, static_cast<double>(steps)) * last->reward;
    ++steps;
  } while (last->end == 0 && steps < options.n_step);
  const bool is_terminated = (last->end & 1) != 0;
  EXPECT_NEAR(draw.reward[i], sum, 1e-12);
  EXPECT_NEAR(draw.discount[i], is_terminated ? 0 : std::pow(options.gamma, static_cast<double>(steps)), 1e-14);
  const Past::Row& first = past.row(number);
  const bool has_next = !is_terminated || options.kept_ends == KeptEnds::kAll;
  for (std::size_t l = 0; l < draw.leaves.size(); ++l) {
    const auto shown = [&](const Past::Bytes& given) {
      return draw.leaves[l].type != past.spec().observation[l].type ? narrowed(given) : given;
    };
    EXPECT_EQ(draw.observation_of(i, l), shown(first.observation[l])) << "leaf " << l;
    EXPECT_EQ(draw.next_of(i, l), shown(has_next ? last->next[l] : last->observation[l])) << "next, leaf " << l;
  }
  const bool is_box = !draw.box.empty();
  const void* const actions = is_box ? static_cast<const void*>(draw.box.data()) : draw.discrete.data();
  EXPECT_EQ(Draw::cut(actions, i, first.action.size()), first.action);
  EXPECT_EQ(Draw::cut(draw.action_mask.data(), i, first.mask.size()), first.mask);
  EXPECT_EQ(Draw::cut(draw.next_action_mask.data(), i, last->next_mask.size()), last->next_mask);
}

/// All rows of the draw.
inline void expect_all_as_in(const Past& past, const ReplayOptions& options, const Draw& draw) {
  for (std::size_t i = 0; i < draw.row.size() && !testing::Test::HasFailure(); ++i)
    expect_as_in(past, options, draw, i);
}

}  // namespace tandem::rl
