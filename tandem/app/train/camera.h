// app/train/camera.h: draws the first episodes of an evaluation, moment by moment.
//
// An episode's last moment is drawn within the step that ends it, since the group begins the next episode in that step.
// All other moments are drawn between steps, when the group is as the policies see it next.
//
// Threads: single-thread, the one that steps the group. The group outlives the camera, which no longer watches it then.
// Errors: EnvError where drawing fails; what on_moment throws passes unchanged.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tandem/app/train/evaluate.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::app {

/// A camera in front of the environments of one group, in which each plays one episode of a round. Environments beyond
/// the episodes that are shown are not drawn, and neither is one whose episode is over while it waits for the others.
class Camera {
 public:
  /// One of the groups is null. Throws ConfigError, saying what to add, where the environments draw no pictures.
  Camera(rl::EnvGroup* one, rl::MultiAgentGroup* several, const ShownEpisodes& shown);
  ~Camera();
  Camera(const Camera&) = delete;
  Camera& operator=(const Camera&) = delete;

  /// All environments have been reset; the first `count` play the episodes from `first_episode` on, counted from 0.
  void begin(std::int64_t first_episode, std::size_t count);
  /// All have made a step, whose results are in `arrays`, an entry an agent.
  void after_step(std::span<const rl::AgentArrays> arrays);

 private:
  // An environment whose episode is shown.
  struct Watched {
    ShownMoment moment;
    std::optional<rl::Canvas> end = {};  // drawn in the step that ended it
    bool is_over = false;
  };
  // Draws an environment of whichever group there is.
  void draw(std::size_t env, rl::Canvas& canvas) const;

  rl::EnvGroup* const one_;
  rl::MultiAgentGroup* const several_;
  const ShownEpisodes& shown_;
  std::vector<Watched> watched_;  // by environment
};

}  // namespace tandem::app
