// Question: what does a replay part cost a training: inserting a step, drawing a batch (uniformly, by priority, of
// stacked pictures), and taking a snapshot of a million rows?
//
// Rows are HalfCheetah's (17 float32, 6 actions) or Atari's (84 x 84 bytes, stacks of four). The part of 10,000 rows
// fits into the cache; draws of the part of 1,000,000 rows miss it for each row.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/replay/replay_part.h"

namespace tandem::bench {
namespace {

constexpr double kSecondsOfACase = 0.5;
constexpr int kLimit = 1000;  // steps of an episode
constexpr std::int64_t kBatch = 256;

rl::Spec cheetah() {
  return {.id = "Cheetah",
          .observation = {{.shape = {17}}},
          .action = rl::Box{std::vector<double>(6, -1), std::vector<double>(6, 1)},
          .max_episode_steps = kLimit};
}
rl::Spec atari() {
  return {.id = "Atari",
          .observation = {{.type = rl::ElementType::kUInt8, .shape = {4, 84, 84}}},
          .action = rl::Discrete{6},
          .max_episode_steps = kLimit};
}

// A part, what is told to it, and what it is asked for. The first four bytes of a cheetah's observation are its step.
class Replay {
 public:
  Replay(const rl::Spec& spec, int envs, rl::ReplayOptions options)
      : part_(std::make_unique<rl::ReplayPart>(spec, envs, std::move(options), 1)),
        buffers_(spec, static_cast<std::size_t>(envs)),
        box_(static_cast<std::size_t>(envs) * 6),
        discrete_(static_cast<std::size_t>(envs)),
        is_box_(std::holds_alternative<rl::Box>(spec.action)) {
    const auto count = static_cast<std::size_t>(kBatch);
    const std::size_t bytes = part_->leaves()[0].bytes();
    observation_.resize(count * bytes);
    next_.resize(count * bytes);
    for (auto* numbers : {&reward_, &discount_, &weight_}) numbers->resize(count);
    row_.resize(count);
    drawn_box_.resize(count * 6);
    drawn_discrete_.resize(count);
    into_.observation = {observation_.data()};
    into_.next_observation = {next_.data()};
    (is_box_ ? void(into_.box = drawn_box_.data()) : void(into_.discrete = drawn_discrete_.data()));
    into_.reward = reward_.data();
    into_.discount = discount_.data();
    into_.weight = weight_.data();
    into_.row = row_.data();
    part_->begin(buffers_.arrays());
  }

  void step() {
    ++now_;
    if (is_box_) {
      for (int env = 0; env < part_->envs(); ++env)
        std::memcpy(buffers_.arrays().observation[0] + static_cast<std::size_t>(env) * 68, &now_, sizeof(now_));
    }
    const bool is_cut = now_ % kLimit == 0;
    std::fill_n(buffers_.arrays().truncated, part_->envs(), static_cast<std::uint8_t>(is_cut ? 1 : 0));
    part_->append(is_box_ ? rl::EnvActions{.box = box_.data()} : rl::EnvActions{.discrete = discrete_.data()},
                  buffers_.arrays());
  }
  void steps(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) step();
  }
  void draw(std::int64_t rows, double beta = 0) { part_->sample(rows, into_, beta); }
  void draw_and_update() {
    draw(kBatch, 0.4);
    for (std::size_t i = 0; i < row_.size(); ++i) weight_[i] = static_cast<double>(row_[i] % 17);
    part_->update_priorities(row_, weight_);
  }
  // Whether the drawn observations are those of their rows.
  [[nodiscard]] bool is_right() const {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      std::int32_t step = 0;
      std::memcpy(&step, observation_.data() + i * 68, sizeof(step));
      if (step != row_[i] / part_->envs()) return false;
    }
    return true;
  }
  [[nodiscard]] const rl::ReplayPart& part() const { return *part_; }

 private:
  std::unique_ptr<rl::ReplayPart> part_;
  rl::EnvBuffers buffers_;
  std::vector<float> box_, drawn_box_;
  std::vector<std::int64_t> discrete_, drawn_discrete_, row_;
  const bool is_box_;
  std::vector<std::byte> observation_, next_;
  std::vector<double> reward_, discount_, weight_;
  rl::SampleArrays into_;
  std::int32_t now_ = 0;
};

template <typename Work>
void measure(Size size, const std::string& name, const Work& work) {
  const auto once = [&] {
    const Clock::time_point begin = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const double first = once();
  std::vector<double> seconds;
  const int times = size == Size::kSmoke ? 1 : repetitions(std::min(first, once()), kSecondsOfACase);
  for (int i = 0; i < times; ++i) seconds.push_back(once());
  const Samples samples(std::move(seconds));
  print({.case_name = name,
         .contender = "tandem",
         .unit = "us",
         .value = 1e6 * samples.quantile(0.5),
         .p99 = 1e6 * samples.quantile(0.99),
         .samples = samples.size()});
}

int run(Size size) {
  const std::int64_t large = size == Size::kSmoke ? 20'000 : 1'000'000;
  for (const int envs : {1, 16}) {
    Replay replay(cheetah(), envs, {.rows = large});
    measure(size, concat("insert 1,008 rows, ", envs, " at a time"), [&] { replay.steps(1008 / envs); });
    Replay ranked(cheetah(), envs, {.rows = large, .priorities = {{}}});
    measure(size, concat("insert 1,008 rows with priorities, ", envs, " at a time"),
            [&] { ranked.steps(1008 / envs); });
  }
  for (const std::int64_t rows : {std::int64_t{10'000}, large}) {
    Replay uniform(cheetah(), 1, {.rows = rows}), ranked(cheetah(), 1, {.rows = rows, .priorities = {{}}});
    uniform.steps(rows);
    ranked.steps(rows);
    uniform.draw(kBatch);
    ranked.draw(kBatch);
    if (!uniform.is_right() || !ranked.is_right()) {
      std::cerr << "a drawn row is not what was inserted\n";
      return 1;
    }
    const std::string of = rows == 10'000 ? " of 10,000" : " of 1,000,000";
    measure(size, "draw 256" + of, [&] { uniform.draw(kBatch); });
    measure(size, "draw 256 by priority" + of + ", and update", [&] { ranked.draw_and_update(); });
    if (rows == large) measure(size, "snapshot of 1,000,000 rows", [&] { (void)uniform.part().snapshot(); });
    if (rows == large)
      measure(size, "snapshot of 1,000,000 rows with priorities", [&] { (void)ranked.part().snapshot(); });
  }
  const std::int64_t pictures = size == Size::kSmoke ? 500 : 50'000;
  Replay stacks(atari(), 1, {.rows = pictures, .leaves = {{.frames = 4}}});
  stacks.steps(pictures);
  measure(size, "draw 32 stacks of four 84 x 84, of 50,000", [&] { stacks.draw(32); });
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
