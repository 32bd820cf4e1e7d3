// GridWorld-v0, a plugin: walk over an 8 x 8 grid to a goal; walls cannot be entered, and the mask says so beforehand.
//
// Built as a shared object of a second or two (no LibTorch header is included), then
//
//   tandem train --plugin ./libgrid_world.so --env GridWorld-v0
#include <tandem/rl/env/plugin.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <tuple>

namespace {

constexpr std::int64_t kSide = 8;
constexpr std::int64_t kCells = kSide * kSide;

struct Cell {
  std::int64_t x = 0, y = 0;
  bool operator==(const Cell&) const = default;
};

// Right, left, down, up.
constexpr std::array<Cell, 4> kMoves = {{{1, 0}, {-1, 0}, {0, 1}, {0, -1}}};

struct GridWorld {
  // Two leaves: where the agent and the goal are, as a picture, and the way to the goal.
  using Observation = std::tuple<std::array<std::uint8_t, 2 * kCells>, std::array<float, 2>>;

  static tandem::rl::Spec spec() {
    return {.id = "GridWorld-v0",
            .observation = {{.name = "picture", .type = tandem::rl::ElementType::kUInt8, .shape = {2, kSide, kSide}},
                            {.name = "way", .shape = {2}, .low = {-kSide, -kSide}, .high = {kSide, kSide}}},
            .action = tandem::rl::Discrete{static_cast<std::int64_t>(kMoves.size())},
            .max_episode_steps = 100,
            .reward_threshold = 0.9,
            .has_action_mask = true};
  }

  Observation reset(tandem::rl::NumpyGenerator& random) {
    agent_ = {random.integers(0, kSide), random.integers(0, kSide)};
    do {
      goal_ = {random.integers(0, kSide), random.integers(0, kSide)};
    } while (goal_ == agent_);
    return observation();
  }

  tandem::rl::StepResult<Observation> step(std::int64_t action) {
    if (const Cell next = moved(action); inside(next)) agent_ = next;
    const bool arrived = agent_ == goal_;
    return {.observation = observation(), .reward = arrived ? 1.0 : -0.01, .terminated = arrived};
  }

  void action_mask(std::span<std::uint8_t> allowed) const {
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = inside(moved(static_cast<std::int64_t>(i)));
  }

  // With these two a stopped run goes on exactly where it was.
  std::array<Cell, 2> save() const { return {agent_, goal_}; }
  Observation load(std::span<const std::byte> state) {
    std::array<Cell, 2> cells;
    if (state.size() != sizeof(cells)) throw std::invalid_argument("a grid's state has 32 bytes");
    std::memcpy(cells.data(), state.data(), sizeof(cells));
    agent_ = cells[0];
    goal_ = cells[1];
    if (!inside(agent_) || !inside(goal_)) throw std::invalid_argument("a cell is outside the grid");
    return observation();
  }

 private:
  static bool inside(Cell cell) { return cell.x >= 0 && cell.x < kSide && cell.y >= 0 && cell.y < kSide; }
  Cell moved(std::int64_t action) const {
    const Cell by = kMoves[static_cast<std::size_t>(action)];
    return {agent_.x + by.x, agent_.y + by.y};
  }

  Observation observation() const {
    Observation shown{};
    auto& [picture, way] = shown;
    picture[static_cast<std::size_t>(agent_.y * kSide + agent_.x)] = 255;
    picture[static_cast<std::size_t>(kCells + goal_.y * kSide + goal_.x)] = 255;
    way = {static_cast<float>(goal_.x - agent_.x), static_cast<float>(goal_.y - agent_.y)};
    return shown;
  }

  Cell agent_, goal_;
};

}  // namespace

TANDEM_ENV_PLUGIN(GridWorld);
