// rl/env/native/cartpole_dynamics.h: one step of many carts with poles, in vectors as wide as the processor has.
//
// The equations are those of R. V. Florian, "Correct equations for the dynamics of the cart-pole system" (2007), with
// an Euler step, in float64 and in the order in which gymnasium's CartPoleEnv writes them. Sine and cosine of the
// angles that a standing pole can have are Taylor polynomials, right to the last bit or two; sine and cosine of other
// angles are the C library's. No operation depends on the neighbouring carts: the bits are the same for any number of
// carts, and on every processor.
//
// Threads: free functions on the caller's memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "tandem/base/cpu.h"

namespace tandem::rl {

/// Half the length of the track in metres; a cart beyond it has left the track.
inline constexpr double kCartPoleEdge = 2.4;
/// The angle from upright, in radians, beyond which a pole counts as fallen.
inline constexpr double kCartPoleFallen = 12.0 * 2.0 * std::numbers::pi / 360.0;

/// The state of `count` carts, a column a variable: place and speed of the cart, angle (radians, 0 is upright) and
/// angular speed of the pole.
struct Carts {
  double *x, *x_dot, *theta, *theta_dot;
};

/// Moves `count` carts: each is pushed left (0) or right (1). Writes the observations, [count, 4] in the order of
/// Carts, rewards of 1, and terminated, 1 where a cart has left the track or a pole has fallen. A cart whose episode
/// ends is stepped as the others; starting it anew is the caller's.
using CartStep = void(std::size_t count, const std::int64_t* actions, const Carts& carts, float* observation,
                      double* reward, std::uint8_t* terminated);

/// The step in the instructions of `set`, which this processor must have. All sets give the same bits, so the fastest
/// may be taken whatever the run agreed on.
[[nodiscard]] CartStep* cart_step_of(InstructionSet set);

}  // namespace tandem::rl
