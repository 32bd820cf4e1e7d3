#include "tandem/rl/algo/off_policy/network_actor.h"

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem::rl {

NetworkActor::NetworkActor(const ActorCritic& policy, const ObservationNetwork& network, const Options& options,
                           std::int64_t rows, Philox random)
    : options_(options),
      rows_(rows),
      size_(action_elements(policy.spec().action)),
      features_(network.encoder().flat(), rows),
      network_({&network.net()}, {.max_rows = rows, .passes = Passes::kForward, .set = options.acting.instruction_set}),
      sampler_(policy.spec(), policy.family(), options.acting, rows, 0, random),
      mean_(static_cast<std::size_t>(rows * size_)),
      log_std_(static_cast<std::size_t>(rows * size_), options.least_log_std) {}

// The sampler wants means, and logarithms of deviations, each in rows of their own.
void NetworkActor::act(const Observation& observation, const at::Tensor& /*mask*/, const Decisions& out) {
  const float* head = network_.forward({.first = features_.of(observation)}, rows_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    float* mean = mean_.data() + row * size_;
    float* log_std = log_std_.data() + row * size_;
    if (options_.head == ActorHead::kAction) {
      std::transform(head + row * size_, head + (row + 1) * size_, mean, [](float x) { return std::tanh(x); });
      continue;
    }
    const float* its = head + 2 * row * size_;
    std::copy_n(its, size_, mean);
    std::transform(its + size_, its + 2 * size_, log_std,
                   [this](float x) { return std::clamp(x, options_.least_log_std, options_.most_log_std); });
  }
  sampler_.sample({.head = mean_.data(), .log_std = log_std_.data(), .log_std_stride = size_}, out);
  std::fill_n(out.value, rows_, 0.0F);
}

void NetworkActor::evaluate(const Observation& /*observation*/, const at::Tensor& /*state*/, float* /*value*/) {
  TANDEM_CHECK(false, "an actor of a replay's algorithm was asked for values");
}

std::vector<std::byte> NetworkActor::save() const {
  StateWriter out;
  sampler_.save(out);
  return out.take();
}

void NetworkActor::load(std::span<const std::byte> state) {
  StateReader in(state, "the actor of an env group");
  sampler_.load(in);
  in.expect_end();
}

}  // namespace tandem::rl
