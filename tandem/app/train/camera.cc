#include "tandem/app/train/camera.h"

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {

Camera::Camera(rl::EnvGroup* one, rl::MultiAgentGroup* several, const ShownEpisodes& shown)
    : one_(one), several_(several), shown_(shown) {
  if (!(one_ != nullptr ? one_->can_render() : several_->can_render()))
    throw ConfigError(concat(
        one_ != nullptr ? one_->spec().id : several_->spec().id,
        " draws no pictures, so there can be no video of it: give its struct a member "
        "void render(tandem::rl::Canvas& canvas) const, or a class that steps many at once "
        "void render(std::size_t env, tandem::rl::Canvas& canvas) const; docs/simulator.md, \"Watch it\", shows one. "
        "Environments in Python are drawn one by one, by their render_mode rgb_array"));
  // The next episode begins within the step, so the last moment of one is drawn from there.
  const auto at_end = [this](int env) {
    const auto e = static_cast<std::size_t>(env);
    if (e < watched_.size() && !watched_[e].is_over) draw(e, watched_[e].end.emplace());
  };
  if (one_ != nullptr) one_->watch_ends(at_end);
  if (several_ != nullptr) several_->watch_ends(at_end);
}

Camera::~Camera() {
  if (one_ != nullptr) one_->watch_ends({});
  if (several_ != nullptr) several_->watch_ends({});
}

void Camera::begin(std::int64_t first_episode, std::size_t count) {
  watched_.clear();
  const std::int64_t left = shown_.episodes - first_episode;
  for (std::size_t env = 0; env < count && static_cast<std::int64_t>(env) < left; ++env) {
    watched_.push_back({.moment = {.episode = first_episode + static_cast<std::int64_t>(env) + 1}});
    if (several_ != nullptr) watched_.back().moment.agent_returns.resize(several_->spec().agents.size());
    rl::Canvas canvas;
    draw(env, canvas);
    shown_.on_moment(watched_.back().moment, std::move(canvas));
  }
}

void Camera::after_step(std::span<const rl::AgentArrays> arrays) {
  for (std::size_t env = 0; env < watched_.size(); ++env) {
    Watched& its = watched_[env];
    if (its.is_over) continue;
    // Agents that are out of the game get zeros.
    for (std::size_t agent = 0; agent < arrays.size(); ++agent) {
      const double reward = arrays[agent].env.reward[env];
      its.moment.episode_return += reward;
      if (several_ != nullptr) its.moment.agent_returns[agent] += reward;
    }
    ++its.moment.step;
    its.moment.is_end = its.end.has_value();
    its.is_over = its.moment.is_end || its.moment.step >= shown_.steps;
    if (!its.is_over && its.moment.step % shown_.every != 0) continue;
    rl::Canvas canvas;
    if (its.end) {
      canvas = *std::exchange(its.end, std::nullopt);
    } else {
      draw(env, canvas);
    }
    shown_.on_moment(its.moment, std::move(canvas));
  }
}

void Camera::draw(std::size_t env, rl::Canvas& canvas) const {
  if (one_ != nullptr) one_->render(static_cast<int>(env), canvas);
  if (several_ != nullptr) several_->render(static_cast<int>(env), canvas);
}

}  // namespace tandem::app
