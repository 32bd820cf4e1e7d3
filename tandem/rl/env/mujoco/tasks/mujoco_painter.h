// rl/env/mujoco/tasks/mujoco_painter.h: pictures of simulations, as MuJoCo draws them, in memory and without a screen.
//
// The camera is the model's own that is called "track", which goes with the body. A model without one is seen from
// where a FreeCamera stands, which does not move.
//
// Threads: paint() from any; pictures of one model are drawn one after the other. A picture of 480 x 480 pixels takes
// a tenth of a second where the processor draws it.
// Errors: NoDrawing (env_faults.h) where there is no OpenGL; EnvError where drawing fails.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/mujoco/tasks/gl_context.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_model.h"

namespace tandem::rl {

/// How a task is shown. Sizes are in pixels.
struct MujocoLook {
  int width = 480, height = 480;
  /// Where the camera stands, unless the model has one called "track": so many metres from the middle of the model's
  /// geoms, as Gymnasium's does; 0: as many as the model extends. Not set: the free camera of MuJoCo's own viewer.
  std::optional<double> camera_distance = {};
};

/// Draws simulations of one model. It has OpenGL's copies of the model's meshes and textures, which are large, so the
/// environments of a model share one (painter_of()).
class MujocoPainter {
 public:
  explicit MujocoPainter(std::shared_ptr<const mjModel> model);
  ~MujocoPainter();
  MujocoPainter(const MujocoPainter&) = delete;
  MujocoPainter& operator=(const MujocoPainter&) = delete;

  /// `data` is a simulation of the model. MuJoCo uses its free memory, and changes nothing else of it.
  void paint(mjData& data, const MujocoLook& look, Canvas& canvas);

 private:
  [[nodiscard]] mjvCamera camera_of(const MujocoLook& look) const;
  void free_all();

  const std::shared_ptr<const mjModel> model_;
  int tracking_ = -1;  // number of the model's camera
  std::array<double, 3> middle_{};
  Mutex mutex_;
  std::unique_ptr<GlContext> context_;
  mjvOption option_{};
  mjvScene scene_{};
  std::unique_ptr<mjrContext> drawing_;
  std::vector<std::uint8_t> pixels_, turned_;
};

/// The painter of a model, which lives as long as somebody holds it.
[[nodiscard]] std::shared_ptr<MujocoPainter> painter_of(const std::shared_ptr<const mjModel>& model);

}  // namespace tandem::rl
