// rl/algo/schedule.h: how an option of an algorithm, such as the learning rate, changes over a run.
//
//   constant                                  the option's value
//   linear                                    the option's value, down to 0 at total_steps
//   piecewise(0: 3e-4, 0.5: 1e-4, 1: 0)       values in place of the option's, by the share of total_steps that is
//                                             made: straight lines between them, constant before the first and after
//                                             the last; a share that is given twice is a jump
//
// A program of yours may also give a function of that share:
//
//   setup.ppo.learning_rate_schedule = [](double share) { return 3e-4 * std::cos(1.5 * share); };
//
// A schedule depends on the share alone, so a resumed run goes on where it was, as long as total_steps stays; with more
// steps the same share comes later.
//
// Threads: plain values; const members from several threads at once. So is a function: every replica calls it, with
// equal shares, and needs equal values.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {

/// One option's course over the run. Options of algorithms are constant unless they say otherwise.
class Schedule {
 public:
  /// kPoints: made by piecewise(); kFunction: of a program's own. The first two have a word each and nothing besides.
  enum Kind { kConstant, kLinear, kPoints, kFunction };
  /// A value at a share of the run, from 0 to 1.
  struct Point {
    double share = 0, value = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };
  /// A schedule has no more points than these.
  static constexpr std::size_t kMostPoints = 64;

  Schedule() = default;
  /// kConstant or kLinear.
  Schedule(Kind kind) : kind_(kind) {  // NOLINT(google-explicit-constructor): options are set by these words
    TANDEM_CHECK(kind == kConstant || kind == kLinear, "a schedule of kind ", int{kind}, " needs more than its word");
  }
  /// `value`: of the share that is made, from 0 to 1. Its values must be finite and not below 0; at() throws
  /// ConfigError for others.
  template <std::invocable<double> Function>
  Schedule(Function value)  // NOLINT(google-explicit-constructor): so that a lambda can be assigned
      : kind_(kFunction), function_(std::move(value)) {}

  /// Throws ConfigError unless there are 1 to kMostPoints points, with shares from 0 to 1 that do not fall, none of
  /// them more than twice, and finite values of at least 0.
  [[nodiscard]] static Schedule piecewise(std::vector<Point> points);
  /// Reads one of the three forms above; blanks do not matter. Nothing when the text is none, or its points are at
  /// fault.
  [[nodiscard]] static std::optional<Schedule> read(std::string_view text);
  /// As read() understands it. Shares and values have the fewest digits that give the same bits again.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] Kind kind() const { return kind_; }
  /// Of kPoints; else empty.
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

  /// The value of an option at `share` (0 at the start, 1 at total_steps, where a run may go beyond). `value` is the
  /// option's own. Throws ConfigError for what a function may not give.
  [[nodiscard]] double at(double value, double share) const {
    return kind_ == kPoints || kind_ == kFunction ? instead(share) : value * scale(share);
  }
  /// The same as a multiple of `value`, which is above 0: for optimizers, which scale their learning rate.
  [[nodiscard]] double factor(double value, double share) const {
    return kind_ == kPoints || kind_ == kFunction ? instead(share) / value : scale(share);
  }

 private:
  // Of the words: never below zero, also beyond the end.
  [[nodiscard]] double scale(double share) const { return kind_ == kLinear ? std::max(0.0, 1.0 - share) : 1.0; }
  [[nodiscard]] double instead(double share) const;

  Kind kind_ = kConstant;
  std::vector<Point> points_;
  std::function<double(double)> function_;
};

// Every fault is told with the number of the point, counted from 0, since lists of points are written by hand.
inline Schedule Schedule::piecewise(std::vector<Point> points) {
  const auto refuse = [](const auto&... why) { throw ConfigError(concat("piecewise schedule: ", why...)); };
  if (points.empty() || points.size() > kMostPoints)
    refuse("it has ", points.size(), " points; 1 to ", kMostPoints, " are possible");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [share, value] = points[i];
    if (!(share >= 0 && share <= 1)) refuse("point ", i, " is at ", share, "; shares of the run go from 0 to 1");
    if (!(value >= 0 && std::isfinite(value)))
      refuse("point ", i, " has the value ", value, "; it must not be below 0");
    if (i > 0 && share < points[i - 1].share)
      refuse("point ", i, " is at ", share, ", before the point ahead of it, at ", points[i - 1].share);
    if (i > 1 && share == points[i - 2].share) refuse("the share ", share, " is given three times; a jump has two");
  }
  Schedule schedule;
  schedule.kind_ = kPoints;
  schedule.points_ = std::move(points);
  return schedule;
}

// Asked once an update, so the points are searched from the first one on. A function is asked within the bounds of the
// run only, also where the run goes beyond them, so that it need not be defined there.
inline double Schedule::instead(double share) const {
  share = std::clamp(share, 0.0, 1.0);
  if (kind_ == kFunction) {
    const double value = function_(share);
    if (!(value >= 0 && std::isfinite(value)))
      throw ConfigError(concat("the function of a schedule gave ", value, " at the share ", share,
                               " of the run; values are finite and "
                               "not below 0"));
    return value;
  }
  std::size_t next = 0;  // the first point behind the share: of a jump the second value counts
  while (next < points_.size() && points_[next].share <= share) ++next;
  if (next == 0) return points_.front().value;
  if (next == points_.size()) return points_.back().value;
  const Point &from = points_[next - 1], &to = points_[next];
  return from.value + (to.value - from.value) * ((share - from.share) / (to.share - from.share));
}

// The form is the only one that has commas and colons, so no grammar is needed: each piece between two commas is a
// point, and what stands on the two sides of its colon are numbers. piecewise() judges them.
inline std::optional<Schedule> Schedule::read(std::string_view text) {
  const auto stripped = [](std::string_view part) {
    const std::size_t first = part.find_first_not_of(' ');
    return first == std::string_view::npos ? std::string_view()
                                           : part.substr(first, part.find_last_not_of(' ') - first + 1);
  };
  text = stripped(text);
  if (text == "constant") return Schedule(kConstant);
  if (text == "linear") return Schedule(kLinear);
  constexpr std::string_view kBegin = "piecewise(";
  if (!text.starts_with(kBegin) || !text.ends_with(')')) return std::nullopt;
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - 1);
  std::vector<Point> points;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = text.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view point = text.substr(0, comma);
    const std::size_t colon = point.find(':');
    if (colon == std::string_view::npos || points.size() == kMostPoints) return std::nullopt;
    const auto share = parse_number<double>(stripped(point.substr(0, colon)));
    const auto value = parse_number<double>(stripped(point.substr(colon + 1)));
    if (!share || !value) return std::nullopt;
    points.push_back({*share, *value});
    if (!is_last) text.remove_prefix(comma + 1);
  }
  try {
    return piecewise(std::move(points));
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// std::to_chars writes the fewest digits that std::from_chars reads back as the same bits, in any locale.
inline std::string Schedule::text() const {
  if (kind_ == kConstant) return "constant";
  if (kind_ == kLinear) return "linear";
  if (kind_ == kFunction) return "a function";
  const auto digits = [](double value) {
    std::array<char, 32> text{};
    return std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
  };
  std::string text;
  for (const auto& [share, value] : points_)
    text += concat(text.empty() ? "piecewise(" : ", ", digits(share), ": ", digits(value));
  return text + ")";
}

}  // namespace tandem::rl
