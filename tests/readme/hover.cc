#include <tandem/rl/env/plugin.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

using namespace tandem::rl;

// A rocket that is to stay five metres above the ground.
struct Hover {
  using Seen = std::array<float, 2>;  // height and speed

  struct Options {
    double gravity = 9.8;
    double wind = 0;
  };
  static OptionsOf<Options> options() {
    return {{"gravity", &Options::gravity, "Acceleration downwards, m/s^2.", {.least = 0, .most = 15}},
            {"wind", &Options::wind, "Standard deviation of the gusts, m/s^2.", {.least = 0, .most = 10}}};
  }
  void configure(const Options& options) { its_ = options; }

  static MetricsOf<Hover> metrics() {
    return {{"near", &Hover::is_near, "Share of the steps within half a metre.", Over::kSteps},
            {"lost", &Hover::is_lost, "Share of the episodes that end too low or too high."}};
  }
  bool is_near() const { return std::abs(seen_[0] - 5) < 0.5F; }
  bool is_lost() const { return seen_[0] < 0 || seen_[0] > 10; }

  static Spec spec() {
    return {.id = "Hover-v0",
            .observation = {{.shape = {2}}},
            .action = Box{{0}, {20}},  // thrust, m/s^2
            .max_episode_steps = 200,
            .render_fps = 20};  // a step is 1/20 s
  }
  Seen reset(NumpyGenerator& random) {
    random_ = &random;
    seen_ = {static_cast<float>(random.uniform(2, 8)), 0};
    thrust_ = 0;
    return seen_;
  }
  StepResult<Seen> step(std::span<const float> thrust) {
    auto& [height, speed] = seen_;
    thrust_ = thrust[0];
    speed += 0.05F * (thrust_ - static_cast<float>(its_.gravity + random_->normal(0, its_.wind)));
    height += 0.05F * speed;
    return {.observation = seen_, .reward = 1 - std::abs(height - 5) / 5, .terminated = is_lost()};
  }
  std::vector<float> save() const { return {seen_[0], seen_[1], thrust_}; }
  Seen load(std::span<const std::byte> saved) {
    std::memcpy(&thrust_, saved.data() + sizeof(seen_), sizeof(thrust_));
    std::memcpy(seen_.data(), saved.data(), sizeof(seen_));
    return seen_;
  }
  void render(Canvas& canvas) const {
    canvas.view(-7.5, 0, 7.5, 10);  // left, bottom, right, top; metres
    canvas.line({{-7.5, 5}, {7.5, 5}}, {.color = Canvas::kGreen, .is_dashed = true});
    canvas.place({0, seen_[0]});  // what follows is in the rocket's own frame
    canvas.polygon({{-0.4, 0}, {0.4, 0}, {0.4, 1}, {0, 1.7}, {-0.4, 1}}, Canvas::kBlue);
    canvas.arrow({0, 0}, {0, -0.08 * thrust_}, {.color = Canvas::kOrange, .width = 4});
  }

 private:
  Options its_;
  NumpyGenerator* random_ = nullptr;
  Seen seen_{};
  float thrust_ = 0;
};

TANDEM_ENV_PLUGIN(Hover);
