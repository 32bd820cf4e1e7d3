#include "tandem/rl/env/mujoco/tasks/mujoco_painter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/rounding.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/mujoco_places.h"

namespace tandem::rl {
namespace {

// Of a scene: as Gymnasium's, and more where the model has more.
int most_geoms(const mjModel& model) { return std::max(1000, 2 * static_cast<int>(model.ngeom)); }

// The medians of the places of all geoms, in the model's first state: numpy.median() of gymnasium's camera.
std::array<double, 3> middle_of(const mjModel& model) {
  const MujocoData data = new_data(model);
  mujoco_library().forward(&model, data.get());
  std::array<double, 3> middle{};
  const auto count = static_cast<std::size_t>(model.ngeom);
  if (count == 0) return middle;
  std::vector<double> places(count);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (std::size_t geom = 0; geom < count; ++geom) places[geom] = data->geom_xpos[3 * geom + axis];
    std::ranges::sort(places);
    middle[axis] = (places[(count - 1) / 2] + places[count / 2]) / 2;
  }
  return middle;
}

}  // namespace

// Whatever was made is freed when a later part fails: a destructor would not run then.
MujocoPainter::MujocoPainter(std::shared_ptr<const mjModel> model)
    : model_(std::move(model)), middle_(middle_of(*model_)) {
  const MujocoLibrary& mujoco = mujoco_library();
  const MujocoPlaces places = mujoco_places();
  const KeptRounding kept;
  tracking_ = mujoco.name_to_id(model_.get(), mjOBJ_CAMERA, "track");
  context_ = new_gl_context(places.opengl, places.egl_device);
  drawing_ = std::make_unique<mjrContext>();
  mujoco.default_option(&option_);
  mujoco.default_scene(&scene_);
  mujoco.default_context(drawing_.get());
  const GlEntered entered(*context_);
  try {
    mujoco.make_scene(model_.get(), &scene_, most_geoms(*model_));
    mujoco.make_context(model_.get(), drawing_.get(), mjFONTSCALE_150);
    mujoco.set_buffer(mjFB_OFFSCREEN, drawing_.get());
    if (drawing_->currentBuffer != mjFB_OFFSCREEN) throw EnvError("OpenGL has no buffer besides the screen");
  } catch (...) {
    free_all();
    throw;
  }
}

MujocoPainter::~MujocoPainter() {
  try {
    const KeptRounding kept;
    const GlEntered entered(*context_);
    free_all();
  } catch (const EnvError&) {  // NOLINT(bugprone-empty-catch): what OpenGL keeps ends with the process
  }
}

void MujocoPainter::free_all() {
  mujoco_library().free_context(drawing_.get());
  mujoco_library().free_scene(&scene_);
}

mjvCamera MujocoPainter::camera_of(const MujocoLook& look) const {
  mjvCamera camera;
  if (tracking_ < 0 && !look.camera_distance) {
    mujoco_library().default_free_camera(model_.get(), &camera);
    return camera;
  }
  mujoco_library().default_camera(&camera);
  if (tracking_ >= 0) {
    camera.type = mjCAMERA_FIXED;
    camera.fixedcamid = tracking_;
    return camera;
  }
  std::ranges::copy(middle_, camera.lookat);
  camera.distance = *look.camera_distance > 0 ? *look.camera_distance : model_->stat.extent;
  return camera;
}

void MujocoPainter::paint(mjData& data, const MujocoLook& look, Canvas& canvas) {
  const MujocoLibrary& mujoco = mujoco_library();
  const MutexLock lock(mutex_);
  const KeptRounding kept;
  const GlEntered entered(*context_);
  if (drawing_->offWidth < look.width || drawing_->offHeight < look.height)
    mujoco.resize_offscreen(std::max(drawing_->offWidth, look.width), std::max(drawing_->offHeight, look.height),
                            drawing_.get());
  mjvCamera camera = camera_of(look);
  mujoco.update_scene(model_.get(), &data, &option_, nullptr, &camera, mjCAT_ALL, &scene_);
  const mjrRect whole{0, 0, look.width, look.height};
  const std::size_t row = std::size_t{3} * static_cast<std::size_t>(look.width);
  const auto rows = static_cast<std::size_t>(look.height);
  pixels_.resize(row * rows);
  turned_.resize(row * rows);
  mujoco.render(whole, &scene_, drawing_.get());
  mujoco.read_pixels(turned_.data(), nullptr, whole, drawing_.get());
  if (const int error = mujoco.gl_error(); error != 0) throw EnvError(concat("OpenGL failed with error ", error));
  // OpenGL's first row is the lowest one.
  for (std::size_t i = 0; i < rows; ++i)
    std::copy_n(turned_.begin() + static_cast<std::ptrdiff_t>((rows - 1 - i) * row), row,
                pixels_.begin() + static_cast<std::ptrdiff_t>(i * row));
  canvas.image(pixels_, look.height, look.width);
}

std::shared_ptr<MujocoPainter> painter_of(const std::shared_ptr<const mjModel>& model) {
  static Mutex making;
  static std::map<const mjModel*, std::weak_ptr<MujocoPainter>> painters;
  const MutexLock lock(making);
  std::erase_if(painters, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<MujocoPainter>& known = painters[model.get()];
  std::shared_ptr<MujocoPainter> painter = known.lock();
  if (painter == nullptr) known = painter = std::make_shared<MujocoPainter>(model);
  return painter;
}

}  // namespace tandem::rl
