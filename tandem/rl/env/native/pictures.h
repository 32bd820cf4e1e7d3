// rl/env/native/pictures.h: how the native environments draw themselves, from their states.
//
// Pictures are made of few shapes, at most some kilobytes each, because a video keeps all of them.
//
// Threads: free functions on the caller's canvas. Lengths and angles are those of the equations of motion; EnvError as
// Canvas throws it.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "tandem/rl/env/canvas.h"

namespace tandem::rl {

/// The part of the plane that a track takes, with its cart and pole: half its width, and its edges below and above the
/// pole's hinge.
struct TrackSize {
  static constexpr double kHalfWidth = 2.8, kBelow = 0.6, kAbove = 1.5;
};
/// A track with the cart at `x`, whose pole leans `theta` to the right. Its middle is at `origin`. `has_ended`: in
/// grey, as the carts of agents that are out of the game. Sets no view; leaves place() at the environment's frame.
void draw_cart(Canvas& canvas, Canvas::Point origin, double x, double theta, bool has_ended = false);
/// CartPole-v1: one track that fills the picture. Beyond its ends a cart has left it.
void draw_cartpole(Canvas& canvas, double x, double theta);
/// Acrobot-v1: the angles of the two links, both 0 where they hang; the line is the height to reach.
void draw_acrobot(Canvas& canvas, double theta1, double theta2);
/// The car of both mountains on its hill, sin(3 x), with the flag at `flag`. It leans as the ground does.
void draw_hill_car(Canvas& canvas, double position, double flag);
/// Pendulum-v1: 0 is upright, which a mark shows, and angles grow counter-clockwise.
void draw_pendulum(Canvas& canvas, double theta);
/// Catch-v0: cells of a board of `side` x `side`, rows from the top. A ball that is caught is green.
void draw_catch(Canvas& canvas, std::int64_t side, std::int64_t row, std::int64_t column, std::int64_t paddle);

/// BitFlipping-v0: rows of bits, the goal above. Bits that are as the goal has them are green where they are set.
void draw_bits(Canvas& canvas, std::span<const float> goal, std::span<const float> now);
/// A card that shows `face`, its middle at `at`: 1 wide and 1.4 high.
void draw_card(Canvas& canvas, Canvas::Point at, const std::string& face, const Canvas::Color& color);
/// RepeatPrevious-v0: the last cards, the oldest first, which are fewer than `places` at an episode's begin. The oldest
/// of all places is the one that is asked for.
void draw_remembered(Canvas& canvas, std::span<const std::int64_t> cards, std::size_t places);
/// KuhnPoker-v0: the players' cards and what was done so far, in words.
void draw_poker(Canvas& canvas, std::span<const std::string> cards, std::span<const std::string> moves);

}  // namespace tandem::rl
