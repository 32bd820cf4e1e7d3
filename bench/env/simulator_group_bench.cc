// Question: how many steps per second does one thread make with a plugin that steps all environments at once, against
// the same simulator as a struct that is one environment? The class is that of examples/group_env.
#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "bench/timing.h"
#include "examples/group_env/parking.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"

namespace tandem::bench {
namespace {

constexpr double kSecondsOfACase = 1;
constexpr std::size_t kPrepared = 16;  // steps whose actions are drawn beforehand and used again and again
constexpr int kTurns = 20;

// Parking-v0 as one cart, with the same arithmetic.
struct ParkingOfOne {
  using Shown = std::array<float, 4>;  // place and speed
  static rl::Spec spec() { return Parking::spec(); }
  Shown reset(rl::NumpyGenerator& random) {
    const auto x = static_cast<float>(random.uniform(-1, 1));
    return shown = {x, static_cast<float>(random.uniform(-1, 1)), 0, 0};
  }
  rl::StepResult<Shown> step(std::span<const float> action) {
    auto& [x, y, x_speed, y_speed] = shown;
    x_speed = 0.9F * x_speed + 0.1F * std::clamp(action[0], -1.0F, 1.0F);
    y_speed = 0.9F * y_speed + 0.1F * std::clamp(action[1], -1.0F, 1.0F);
    x += 0.1F * x_speed;
    y += 0.1F * y_speed;
    const float distance = std::sqrt(x * x + y * y);
    return {.observation = shown, .reward = static_cast<double>(-0.5F * distance), .terminated = distance > 3};
  }
  Shown shown = {};
};

// A group with everything that stepping it needs.
class Walk {
 public:
  explicit Walk(std::unique_ptr<rl::EnvGroup> group) : group_(std::move(group)), buffers_(*group_) {
    std::vector<std::uint64_t> seeds(buffers_.rows());
    for (std::size_t env = 0; env < seeds.size(); ++env) seeds[env] = env;
    group_->reset(seeds, buffers_.arrays());
    Philox random(1, 2);
    for (std::size_t i = 0; i < kPrepared * 2 * seeds.size(); ++i)
      actions_.push_back(static_cast<float>(2 * random.uniform_double() - 1));
  }
  void step() {
    const std::size_t elements = 2 * buffers_.rows();
    group_->step({.box = actions_.data() + number_++ % kPrepared * elements}, buffers_.arrays());
  }
  // Seconds for each of `count` steps, on average.
  double time(int count) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) step();
    return seconds_since(start) / count;
  }
  [[nodiscard]] const rl::EnvBuffers& buffers() const { return buffers_; }

 private:
  std::unique_ptr<rl::EnvGroup> group_;
  rl::EnvBuffers buffers_;
  std::vector<float> actions_;
  std::size_t number_ = 0;
};

Walk at_once(int count) { return Walk(rl::simulator_group<Parking>(count)); }
Walk one_by_one(int count) { return Walk(std::make_unique<rl::EnvGroupOf<ParkingOfOne>>(count)); }

// The answer: both show and earn the same, over restarts too.
bool are_equal() {
  constexpr int kEnvs = 67, kSteps = 450;
  Walk many = at_once(kEnvs), one = one_by_one(kEnvs);
  for (int step = 0; step < kSteps; ++step) {
    many.step();
    one.step();
    for (std::size_t env = 0; env < kEnvs; ++env) {
      const auto a = many.buffers().observation<float>(env), b = one.buffers().observation<float>(env);
      if (!std::equal(a.begin(), a.end(), b.begin()) || many.buffers().reward()[env] != one.buffers().reward()[env])
        return false;
    }
  }
  return true;
}

int run(Size size) {
  if (!are_equal()) {
    std::cerr << "the simulator of many does not do what its single environments do\n";
    return 1;
  }
  for (const int count : {64, 1024}) {
    Walk many = at_once(count), one = one_by_one(count);
    const int steps = size == Size::kSmoke ? 5 : repetitions(one.time(100), kSecondsOfACase / kTurns);
    std::vector<double> many_seconds, one_seconds;
    for (int turn = 0; turn < (size == Size::kSmoke ? 1 : kTurns); ++turn) {
      many_seconds.push_back(many.time(steps));
      one_seconds.push_back(one.time(steps));
    }
    const auto report = [&](const char* contender, std::vector<double> seconds) {
      const Samples samples(std::move(seconds));
      print({.case_name = concat("Parking-v0 x ", count),
             .contender = contender,
             .unit = "1/s",
             .value = count / samples.quantile(0.5),
             .p99 = count / samples.quantile(0.99),
             .samples = samples.size()});
    };
    report("all at once", std::move(many_seconds));
    report("one by one", std::move(one_seconds));
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
