// rl/env/native/multi_agent_cartpole.h: several carts with a pole each in one environment, which know nothing of each
// other.
//
// Each agent's task is CartPole-v1, to the bit. An agent whose pole has fallen waits until all poles have, or until the
// time limit of 500 steps. The task is easy to learn; the environment is there for agents that end at different times
// and that may share a policy. RLlib's examples have an environment of the same name.
//
// Threads: single-thread, as every environment.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {

/// One environment of kCarts agents, as multi_agent_adapter.h describes a struct.
class MultiAgentCartPole {
 public:
  static constexpr std::size_t kCarts = 4;
  /// Place and speed of the cart, angle and angular speed of the pole, as CartPole-v1 shows them.
  using Shown = std::array<float, 4>;

  MultiAgentCartPole() : carts_(make_cartpole(kCarts)), buffers_(std::make_unique<EnvBuffers>(*carts_)) {}

  static MultiAgentSpec spec() {
    const Spec one = make_cartpole(1)->spec();
    MultiAgentSpec spec{.id = "MultiAgentCartPole-v0",
                        .max_episode_steps = one.max_episode_steps,
                        .reward_threshold = kCarts * *one.reward_threshold,
                        .render_fps = one.render_fps};
    for (std::size_t cart = 0; cart < kCarts; ++cart)
      spec.agents.push_back({.name = concat("cart_", cart), .observation = one.observation, .action = one.action});
    return spec;
  }
  /// Each cart gets a seed that `random` draws.
  void reset(NumpyGenerator& random) {
    std::array<std::uint64_t, kCarts> seeds{};
    for (std::uint64_t& seed : seeds) seed = random.next_uint64();
    carts_->reset(seeds, buffers_->arrays());
    fallen_ = {};
    for (std::size_t cart = 0; cart < kCarts; ++cart) show(cart);
  }
  /// All carts of the group move; of those that have fallen the result is not looked at. A cart that ends has been
  /// started anew by the group, so its agent sees the last observation instead.
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes) {
    std::array<std::int64_t, kCarts> pushes{};
    for (std::size_t cart = 0; cart < kCarts; ++cart)
      pushes[cart] = fallen_[cart] != 0 ? 0 : actions[cart].discrete.front();
    carts_->step({.discrete = pushes.data()}, buffers_->arrays());
    for (std::size_t cart = 0; cart < kCarts; ++cart) {
      if (fallen_[cart] != 0) continue;
      outcomes[cart].reward = buffers_->reward()[cart];
      outcomes[cart].terminated = buffers_->terminated()[cart] != 0;
      fallen_[cart] = outcomes[cart].terminated ? 1 : 0;
      show(cart);
      // The group has the same time limit and has started the cart anew there as well.
      if (buffers_->terminated()[cart] != 0 || buffers_->truncated()[cart] != 0)
        std::ranges::copy(buffers_->final_observation<float>(cart), shown_[cart].begin());
    }
  }
  [[nodiscard]] Shown observe(std::size_t agent) const { return shown_[agent]; }

  /// Two tracks in a row, each with its agent's name. Carts that have fallen are grey, and stay where they fell: what
  /// the group does with them unseen is not shown.
  void render(Canvas& canvas) const {
    constexpr double kWidth = 2 * TrackSize::kHalfWidth, kHeight = TrackSize::kAbove + TrackSize::kBelow;
    constexpr std::size_t kRows = kCarts / 2;
    canvas.view(0, 0, 2 * kWidth, static_cast<double>(kRows) * kHeight);
    for (std::size_t cart = 0; cart < kCarts; ++cart) {
      const std::size_t rows_below = kRows - 1 - cart / 2;
      const Canvas::Point middle{(static_cast<double>(cart % 2) + 0.5) * kWidth,
                                 static_cast<double>(rows_below) * kHeight + TrackSize::kBelow};
      draw_cart(canvas, middle, static_cast<double>(shown_[cart][0]), static_cast<double>(shown_[cart][2]),
                fallen_[cart] != 0);
      canvas.text({middle.x, middle.y - 0.45}, concat("cart_", cart), {.color = Canvas::kGray, .size = 11});
    }
  }

  /// Which carts have fallen, and the state of the carts, as bytes; and back.
  [[nodiscard]] std::vector<std::byte> save() const {
    StateWriter out;
    out.put(fallen_);
    out.put_bytes(carts_->save());
    return out.take();
  }
  void load(std::span<const std::byte> state) {
    StateReader in(state, "carts");
    fallen_ = in.get<std::array<std::uint8_t, kCarts>>();
    carts_->load(in.get_bytes(), buffers_->arrays());
    in.expect_end();
    for (std::size_t cart = 0; cart < kCarts; ++cart) show(cart);
  }

 private:
  void show(std::size_t cart) { std::ranges::copy(buffers_->observation<float>(cart), shown_[cart].begin()); }

  // In this group a cart that has fallen starts anew and goes on unseen, until reset() starts all of them.
  std::unique_ptr<ClassicGroup> carts_;
  std::unique_ptr<EnvBuffers> buffers_;
  // By cart: what its agent sees, and whether its pole has fallen in this episode.
  std::array<Shown, kCarts> shown_ = {};
  std::array<std::uint8_t, kCarts> fallen_ = {};
};

}  // namespace tandem::rl
