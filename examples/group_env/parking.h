// Parking-v0: carts on a plane, each of which is to stop at the origin. One object is all carts of a group.
//
// A variable of all carts is one array, so the loop of step() becomes vector instructions: that is what a class for
// many environments is for. A simulator on a device would start its kernel there, and copy the results.
#pragma once
#include <tandem/rl/env/plugin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

class Parking {
 public:
  struct Options {
    double drag = 0.1;
  };
  static tandem::rl::OptionsOf<Options> options() {
    return {{"drag", &Options::drag, "Share of the speed that a step takes away.", {.least = 0, .most = 1}}};
  }
  static tandem::rl::Spec spec() {
    return {.id = "Parking-v0",
            .observation = {{.shape = {4}}},              // place and speed
            .action = tandem::rl::Box{{-1, -1}, {1, 1}},  // acceleration
            .max_episode_steps = 100,
            .reward_threshold = -8,
            .render_fps = 20};
  }

  explicit Parking(int count) : count_(static_cast<std::size_t>(count)), kept_(count_, 0.9F), distance_(count_) {
    for (std::vector<float>* column : {&x_, &y_, &x_speed_, &y_speed_}) column->resize(count_);
  }

  void configure(std::size_t cart, const Options& options) { kept_[cart] = static_cast<float>(1 - options.drag); }

  void reset(std::size_t cart, tandem::rl::NumpyGenerator& random, const tandem::rl::ObservationRow& first) {
    x_[cart] = static_cast<float>(random.uniform(-1, 1));
    y_[cart] = static_cast<float>(random.uniform(-1, 1));
    x_speed_[cart] = y_speed_[cart] = 0;
    show(cart, first.leaf<float>());
  }

  // Short loops over few arrays each, so that compilers turn them into vector instructions.
  void step(std::span<const float> actions, const tandem::rl::StepOfAll& out) {
    move(kept_, actions, x_, x_speed_);
    move(kept_, actions.subspan(1), y_, y_speed_);
    for (std::size_t cart = 0; cart < count_; ++cart)
      distance_[cart] = std::sqrt(x_[cart] * x_[cart] + y_[cart] * y_[cart]);
    for (std::size_t cart = 0; cart < count_; ++cart) out.reward[cart] = static_cast<double>(-0.5F * distance_[cart]);
    for (std::size_t cart = 0; cart < count_; ++cart)
      out.terminated[cart] = distance_[cart] > 3 ? 1 : 0;          // off the plane
    const std::span<float> shown = out.observation.leaf<float>();  // four numbers a cart
    for (std::size_t cart = 0; cart < count_; ++cart) show(cart, shown.subspan(4 * cart, 4));
  }

  // With these two a stopped run goes on exactly where it was.
  std::array<float, 4> save(std::size_t cart) const { return {x_[cart], y_[cart], x_speed_[cart], y_speed_[cart]}; }
  void load(std::size_t cart, std::span<const std::byte> state, const tandem::rl::ObservationRow& now) {
    std::array<float, 4> values;
    if (state.size() != sizeof(values)) throw std::invalid_argument("a cart has 16 bytes");
    std::memcpy(values.data(), state.data(), sizeof(values));
    x_[cart] = values[0];
    y_[cart] = values[1];
    x_speed_[cart] = values[2];
    y_speed_[cart] = values[3];
    show(cart, now.leaf<float>());
  }

  void render(std::size_t cart, tandem::rl::Canvas& canvas) const {
    using tandem::rl::Canvas;
    const auto x = static_cast<double>(x_[cart]), y = static_cast<double>(y_[cart]);
    canvas.view(-1.5, -1, 1.5, 1);
    canvas.rectangle({-0.1, -0.1}, {0.1, 0.1}, Canvas::kLight);
    canvas.place({x, y});
    canvas.arrow({0, 0}, {static_cast<double>(x_speed_[cart]), static_cast<double>(y_speed_[cart])},
                 {.color = Canvas::kOrange});
    canvas.disc({0, 0}, 0.05, Canvas::kBlue);
  }

 private:
  // One direction of all carts; every second number of `pushes` is of that direction.
  static void move(const std::vector<float>& kept, std::span<const float> pushes, std::vector<float>& place,
                   std::vector<float>& speed) {
    for (std::size_t cart = 0; cart < place.size(); ++cart) {
      speed[cart] = kept[cart] * speed[cart] + 0.1F * std::clamp(pushes[2 * cart], -1.0F, 1.0F);
      place[cart] += 0.1F * speed[cart];
    }
  }
  void show(std::size_t cart, std::span<float> row) const {
    row[0] = x_[cart];
    row[1] = y_[cart];
    row[2] = x_speed_[cart];
    row[3] = y_speed_[cart];
  }

  std::size_t count_;
  std::vector<float> x_, y_, x_speed_, y_speed_;
  std::vector<float> kept_;  // share of the speed
  std::vector<float> distance_;
};
