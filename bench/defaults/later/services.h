// bench/defaults/later/services.h: the energy of a house for a day, and an elevator.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <span>

namespace tandem::defaults {

/// A house with a roof of solar cells, a battery of 15 kWh and a car, from 16:00 to 22:00 of the next day in hours.
/// Orders are kilowatts: the battery gives up to 5 and takes up to 3, the car takes up to 11. The price of the next
/// hours is known; what is sold earns 80 % of it. Above 7 kW the net costs more, and so does each kWh that the car
/// lacks when it leaves at 7:00. Rewards are euros.
///
/// Mean returns of 200 episodes: -11.8 with random actions, -7.2 with a constant action, 1.9 with the controller.
struct HomeEnergy {
  using Observation = std::array<double, 10>;

  static rl::Spec spec() {
    return {.id = "HomeEnergy-v0",
            .observation = {{.shape = {10}}},
            .action = rl::Box{.low = {-5, 0}, .high = {3, 11}},
            .max_episode_steps = 30};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    const double level = random->uniform(-0.05, 0.05);
    sun = random->random();
    for (std::size_t i = 0; i < prices.size(); ++i)
      prices[i] = usual_price((16 + static_cast<int>(i)) % 24) + level + random->uniform(-0.04, 0.04);
    stored = random->uniform(0, 15);
    missing = random->uniform(10, 40);
    hour = 0;
    use = random->uniform(0.3, 1.5);
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> power) {
    const double battery = std::clamp(std::clamp<double>(power[0], -5, 3), -stored, (15 - stored) / 0.9);
    stored += battery > 0 ? 0.9 * battery : battery;
    const double car = parked() > 0 ? std::min(std::clamp<double>(power[1], 0, 11), missing) : 0.0;
    missing -= car;
    const double bought = use + car + battery - solar();
    const double price = prices[static_cast<std::size_t>(hour)];
    double euros = bought > 0 ? -bought * price : -bought * 0.8 * price;
    euros -= 0.4 * std::max(bought - 7, 0.0);
    hour += 1;
    if (hour == 15) euros -= 0.8 * missing;
    use = random->uniform(0.3, 1.5);
    return {.observation = observation(), .reward = euros};
  }

  static double usual_price(int clock) {
    if (clock >= 17 && clock < 22) return 0.48;
    if (clock < 6) return 0.12;
    return clock >= 11 && clock < 15 ? 0.1 : 0.28;
  }

  // Hours until the car leaves.
  [[nodiscard]] int parked() const { return std::max(15 - hour, 0); }
  [[nodiscard]] int clock() const { return (16 + hour) % 24; }
  [[nodiscard]] double solar() const {
    return 5 * sun * std::max(std::sin(std::numbers::pi * (clock() - 6) / 14), 0.0);
  }
  [[nodiscard]] Observation observation() const {
    const auto now = static_cast<std::size_t>(hour);
    return {stored,
            parked() > 0 ? missing : 0.0,
            static_cast<double>(parked()),
            prices[now],
            prices[now + 1],
            prices[now + 2],
            prices[now + 3],
            use,
            solar(),
            static_cast<double>(clock())};
  }

  rl::NumpyGenerator* random = nullptr;
  std::array<double, 34> prices{};
  double sun = 0, stored = 0, missing = 0, use = 0;
  int hour = 0;
};

/// An elevator for six persons in a house of six floors: down, up, or open the door. Half of the people come in on the
/// ground floor; most others want to go there. Everybody who waits or rides costs 0.1 a step, and who finds eight
/// waiting goes away, which costs 1.
///
/// Mean returns of 200 episodes: -620 with random actions, -899 with a constant action, -81 with the controller.
struct Elevator {
  using Observation = std::array<float, 13>;

  static rl::Spec spec() {
    return {.id = "Elevator-v0", .observation = {{.shape = {13}}}, .action = rl::Discrete{3}, .max_episode_steps = 300};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    floor = static_cast<std::size_t>(random->integers(0, 6));
    for (int& people : waiting) people = static_cast<int>(random->integers(0, 3));
    riding = {};
    return observation();
  }

  rl::StepResult<Observation> step(std::int64_t order) {
    if (order == 0 && floor > 0) floor -= 1;
    if (order == 1 && floor < 5) floor += 1;
    if (order == 2) open();
    int gone = 0;
    for (std::size_t at = 0; at < 6; ++at) {
      if (random->random() < (at == 0 ? 0.12 : 0.024)) waiting[at] += 1;
      if (waiting[at] > 8) {
        waiting[at] -= 1;
        gone += 1;
      }
    }
    return {.observation = observation(), .reward = -0.1 * (total(waiting) + total(riding)) - gone};
  }

  // Who is there gets out; as many as there is room for get in, and press their buttons.
  void open() {
    riding[floor] = 0;
    while (waiting[floor] > 0 && total(riding) < 6) {
      waiting[floor] -= 1;
      std::size_t to = floor == 0 ? static_cast<std::size_t>(random->integers(1, 6)) : 0;
      if (floor > 0 && random->random() < 0.2) to = floor % 5 + 1;
      riding[to] += 1;
    }
  }

  static int total(const std::array<int, 6>& people) { return std::accumulate(people.begin(), people.end(), 0); }

  [[nodiscard]] Observation observation() const {
    Observation shown{static_cast<float>(floor)};
    for (std::size_t at = 0; at < 6; ++at) {
      shown[1 + at] = static_cast<float>(riding[at]);
      shown[7 + at] = static_cast<float>(waiting[at]);
    }
    return shown;
  }

  rl::NumpyGenerator* random = nullptr;
  std::array<int, 6> waiting{}, riding{};
  std::size_t floor = 0;
};

}  // namespace tandem::defaults
