#include "tandem/rl/env/native/pictures.h"

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/env/native/cartpole_dynamics.h"

namespace tandem::rl {
namespace {

using Point = Canvas::Point;

constexpr double kPi = std::numbers::pi;

// Where a rod of length 1 ends that hangs `angle` to the right of `from`.
Point below(Point from, double angle) { return {from.x + std::sin(angle), from.y - std::cos(angle)}; }

double hill(double x) { return 0.45 * std::sin(3 * x) + 0.55; }

}  // namespace

void draw_cart(Canvas& canvas, Point origin, double x, double theta, bool has_ended) {
  constexpr double kRail = -0.26, kCartHalf = 0.3, kCartDepth = 0.18, kWheel = 0.08;
  const Canvas::Color cart = has_ended ? Canvas::kGray : Canvas::kBlue;
  const Canvas::Color pole = has_ended ? Canvas::kGray : Canvas::kOrange;
  canvas.place(origin);
  canvas.line({{-kCartPoleEdge, kRail}, {kCartPoleEdge, kRail}}, {.color = Canvas::kGray});
  for (const double end : {-kCartPoleEdge, kCartPoleEdge})
    canvas.line({{end, kRail - 0.12}, {end, kRail + 0.12}}, {.color = Canvas::kGray});
  canvas.place({origin.x + x, origin.y});
  canvas.rectangle({-kCartHalf, -kCartDepth}, {kCartHalf, 0.06}, cart);
  for (const double wheel : {-0.6 * kCartHalf, 0.6 * kCartHalf})
    canvas.disc({wheel, kRail + kWheel}, kWheel, Canvas::kInk);
  canvas.rod({0, 0}, {std::sin(theta), std::cos(theta)}, 0.09, pole);
  canvas.disc({0, 0}, 0.045, Canvas::kInk);
  canvas.place({});
}

void draw_cartpole(Canvas& canvas, double x, double theta) {
  canvas.view(-TrackSize::kHalfWidth, -TrackSize::kBelow, TrackSize::kHalfWidth, TrackSize::kAbove);
  draw_cart(canvas, {}, x, theta);
}

void draw_acrobot(Canvas& canvas, double theta1, double theta2) {
  constexpr double kReach = 2.3, kThick = 0.2, kJoint = 0.06;
  canvas.view(-kReach, -kReach, kReach, kReach);
  canvas.line({{-kReach, 1}, {kReach, 1}}, {.color = Canvas::kGreen, .is_dashed = true});
  const Point elbow = below({}, theta1), end = below(elbow, theta1 + theta2);
  canvas.rod({}, elbow, kThick, Canvas::kBlue);
  canvas.rod(elbow, end, kThick, Canvas::kSky);
  canvas.disc({}, kJoint, Canvas::kInk);
  canvas.disc(elbow, kJoint, Canvas::kInk);
}

void draw_hill_car(Canvas& canvas, double position, double flag) {
  constexpr double kLeft = -1.26, kRight = 0.66, kBottom = -0.06, kTop = 1.22;
  constexpr int kPieces = 96;
  canvas.view(kLeft, kBottom, kRight, kTop);
  std::vector<Point> ground;
  for (int i = 0; i <= kPieces; ++i) {
    const double x = kLeft + (kRight - kLeft) * i / kPieces;
    ground.push_back({x, hill(x)});
  }
  const std::vector<Point> surface = ground;
  ground.push_back({kRight, kBottom});
  ground.push_back({kLeft, kBottom});
  canvas.polygon(ground, Canvas::kLight);
  canvas.line(surface, {.color = Canvas::kGray});
  canvas.line({{flag, hill(flag)}, {flag, hill(flag) + 0.19}}, {.color = Canvas::kInk});
  canvas.polygon({{flag, hill(flag) + 0.19}, {flag + 0.09, hill(flag) + 0.155}, {flag, hill(flag) + 0.12}},
                 Canvas::kRed);
  // The car stands on the slope; its own frame has the wheels' lowest points at y = 0.
  canvas.place({position, hill(position)}, std::atan(1.35 * std::cos(3 * position)));
  canvas.polygon({{-0.09, 0.03},
                  {0.09, 0.03},
                  {0.09, 0.062},
                  {0.052, 0.072},
                  {0.025, 0.105},
                  {-0.055, 0.105},
                  {-0.075, 0.068},
                  {-0.09, 0.062}},
                 Canvas::kBlue);
  for (const double wheel : {-0.05, 0.05}) {
    canvas.disc({wheel, 0.024}, 0.024, Canvas::kInk);
    canvas.disc({wheel, 0.024}, 0.009, Canvas::kLight);
  }
  canvas.place({});
}

void draw_pendulum(Canvas& canvas, double theta) {
  constexpr double kReach = 1.25;
  canvas.view(-kReach, -kReach, kReach, kReach);
  std::vector<Point> circle;
  for (int i = 0; i <= 120; ++i) circle.push_back(below({}, kPi * i / 60));
  canvas.line(circle, {.color = Canvas::kLight});
  canvas.line({{0, 0.93}, {0, 1.07}}, {.color = Canvas::kGreen, .width = 3});
  canvas.rod({}, {-std::sin(theta), std::cos(theta)}, 0.16, Canvas::kBlue);
  canvas.disc({}, 0.045, Canvas::kInk);
}

void draw_catch(Canvas& canvas, std::int64_t side, std::int64_t row, std::int64_t column, std::int64_t paddle) {
  const auto end = static_cast<double>(side);
  canvas.view(0, end, end, 0);
  canvas.rectangle({0, 0}, {end, end}, Canvas::kInk);
  const auto cell = [&](std::int64_t down, std::int64_t right, const Canvas::Color& color) {
    constexpr double kGap = 0.06;
    const auto x = static_cast<double>(right), y = static_cast<double>(down);
    canvas.rectangle({x + kGap, y + kGap}, {x + 1 - kGap, y + 1 - kGap}, color);
  };
  cell(side - 1, paddle, Canvas::kSky);
  cell(row, column, row == side - 1 && column == paddle ? Canvas::kGreen : Canvas::kYellow);
}

void draw_bits(Canvas& canvas, std::span<const float> goal, std::span<const float> now) {
  constexpr double kGap = 0.08;
  canvas.view(0, 0, static_cast<double>(goal.size()), 2.5);
  for (std::size_t bit = 0; bit < goal.size(); ++bit) {
    const auto x = static_cast<double>(bit);
    const auto draw = [&](double y, float value, const Canvas::Color& set) {
      canvas.rectangle({x + kGap, y + kGap}, {x + 1 - kGap, y + 1 - kGap}, Canvas::kInk);
      if (value == 0)
        canvas.rectangle({x + 2 * kGap, y + 2 * kGap}, {x + 1 - 2 * kGap, y + 1 - 2 * kGap}, Canvas::kWhite);
      if (value != 0) canvas.rectangle({x + 2 * kGap, y + 2 * kGap}, {x + 1 - 2 * kGap, y + 1 - 2 * kGap}, set);
    };
    draw(1.5, goal[bit], Canvas::kBlue);
    draw(0, now[bit], now[bit] == goal[bit] ? Canvas::kGreen : Canvas::kOrange);
  }
}

void draw_card(Canvas& canvas, Point at, const std::string& face, const Canvas::Color& color) {
  constexpr double kHalf = 0.5, kTall = 0.7, kEdge = 0.05;
  canvas.rectangle({at.x - kHalf, at.y - kTall}, {at.x + kHalf, at.y + kTall}, color);
  canvas.rectangle({at.x - kHalf + kEdge, at.y - kTall + kEdge}, {at.x + kHalf - kEdge, at.y + kTall - kEdge},
                   Canvas::kWhite);
  canvas.text(at, face, {.color = color, .size = 40, .is_bold = true});
}

void draw_remembered(Canvas& canvas, std::span<const std::int64_t> cards, std::size_t places) {
  constexpr std::array kColors{Canvas::kBlue, Canvas::kOrange, Canvas::kGreen, Canvas::kPink};
  constexpr double kStep = 1.25;
  const double width = kStep * static_cast<double>(places);
  canvas.view(-0.1, -0.35, width + 0.1, 2.15);
  const auto middle = [&](std::size_t place) { return kStep * (static_cast<double>(place) + 0.5); };
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const Canvas::Color color = kColors[static_cast<std::size_t>(cards[i]) % kColors.size()];
    draw_card(canvas, {middle(places - cards.size() + i), 1.2}, concat(cards[i]), color);
  }
  canvas.text({middle(0), 0.1}, "asked", {.color = Canvas::kInk});
  canvas.text({middle(places - 1), 0.1}, "shown", {.color = Canvas::kInk});
}

void draw_poker(Canvas& canvas, std::span<const std::string> cards, std::span<const std::string> moves) {
  constexpr double kWide = 2.4;
  canvas.view(-kWide - 0.8, -0.4, kWide + 0.8, 2.4);
  for (std::size_t player = 0; player < cards.size(); ++player) {
    const double x = player == 0 ? -kWide : kWide;
    const Canvas::Color color = player == 0 ? Canvas::kBlue : Canvas::kOrange;
    draw_card(canvas, {x, 1.3}, cards[player], color);
    canvas.text({x, 0.2}, concat("player_", player), {.color = color});
  }
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const bool is_first = i % 2 == 0;
    const double y = 1.85 - 0.55 * static_cast<double>(i), end = is_first ? 0.5 : -0.5;
    const Canvas::Color color = is_first ? Canvas::kBlue : Canvas::kOrange;
    canvas.text({is_first ? -0.75 : 0.75, y}, moves[i], {.color = color, .size = 20, .is_bold = true});
    canvas.arrow({is_first ? -0.2 : 0.2, y}, {end, y}, {.color = color});
  }
}

}  // namespace tandem::rl
