#include "tandem/rl/env/native/multi_agent_cartpole.h"

#include <algorithm>

namespace tandem::rl {

MultiAgentCartPole::MultiAgentCartPole()
    : carts_(make_cartpole(kCarts)), buffers_(std::make_unique<EnvBuffers>(*carts_)) {}

MultiAgentSpec MultiAgentCartPole::spec() {
  const Spec one = make_cartpole(1)->spec();
  MultiAgentSpec spec{.id = "MultiAgentCartPole-v0",
                      .max_episode_steps = one.max_episode_steps,
                      .reward_threshold = kCarts * *one.reward_threshold};
  for (std::size_t cart = 0; cart < kCarts; ++cart)
    spec.agents.push_back({.name = concat("cart_", cart), .observation = one.observation, .action = one.action});
  return spec;
}

void MultiAgentCartPole::show(std::size_t cart) {
  std::ranges::copy(buffers_->observation<float>(cart), shown_[cart].begin());
}

void MultiAgentCartPole::reset(NumpyGenerator& random) {
  std::array<std::uint64_t, kCarts> seeds{};
  for (std::uint64_t& seed : seeds) seed = random.next_uint64();
  carts_->reset(seeds, buffers_->arrays());
  fallen_ = {};
  for (std::size_t cart = 0; cart < kCarts; ++cart) show(cart);
}

// All carts of the group move; of those that have fallen the result is not looked at. A cart that ends has been started
// anew by the group, so its agent sees the last observation instead.
void MultiAgentCartPole::step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes) {
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

std::vector<std::byte> MultiAgentCartPole::save() const {
  StateWriter out;
  out.put(fallen_);
  out.put_bytes(carts_->save());
  return out.take();
}

void MultiAgentCartPole::load(std::span<const std::byte> state) {
  StateReader in(state, "carts");
  fallen_ = in.get<std::array<std::uint8_t, kCarts>>();
  carts_->load(in.get_bytes(), buffers_->arrays());
  in.expect_end();
  for (std::size_t cart = 0; cart < kCarts; ++cart) show(cart);
}

}  // namespace tandem::rl
