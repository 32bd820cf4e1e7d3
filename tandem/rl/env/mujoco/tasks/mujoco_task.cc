#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {
namespace {

constexpr unsigned kSaved = mjSTATE_INTEGRATION;
constexpr double kMostFramesPerSecond = 1000;  // of Spec::render_fps

// gymnasium's Box has float32 bounds. MuJoCo leaves the range of an actuator without limits at 0.
Box actions_of(const mjModel& model) {
  Box box;
  for (std::ptrdiff_t i = 0; i < model.nu; ++i) {
    const bool is_limited = model.actuator_ctrllimited[i] != 0;
    const double beyond = std::numeric_limits<double>::infinity();
    box.low.push_back(is_limited ? static_cast<float>(model.actuator_ctrlrange[2 * i]) : -beyond);
    box.high.push_back(is_limited ? static_cast<float>(model.actuator_ctrlrange[2 * i + 1]) : beyond);
  }
  return box;
}

std::vector<double> numbers(StateReader& reader) {
  const std::span<const std::byte> bytes = reader.get_bytes();
  std::vector<double> values(bytes.size() / sizeof(double));
  if (bytes.size() % sizeof(double) != 0) reader.fail(concat(bytes.size(), " bytes are no row of numbers"));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

bool MujocoTask::use_model(const MujocoOptions& options, const char* own_model, const ModelNeeds& needs) {
  const std::shared_ptr<const mjModel> before = model_;
  // The name is passed on without a copy: a step that begins an episode takes no memory.
  frame_skip_ = static_cast<int>(options.frame_skip);
  size_pictures(options.width, options.height);
  const std::string_view name = options.xml_file.empty() ? std::string_view(own_model) : options.xml_file;
  if (name != model_name_) use_model(std::string(name), options.frame_skip, needs);
  return model_ != before;
}

void MujocoTask::use_model(const std::string& name, std::int64_t frame_skip, const ModelNeeds& needs) {
  frame_skip_ = static_cast<int>(frame_skip);
  if (name == model_name_) return;
  SharedModel shared = shared_model(name);
  require_parts(*shared.model, needs, facts_.id, name);
  data_ = new_data(*shared.model);
  model_ = std::move(shared.model);
  model_digest_ = shared.digest;
  model_name_ = name;
  painter_ = nullptr;
  mujoco_library().forward(model_.get(), data_.get());
}

double MujocoTask::step_duration() const { return model_->opt.timestep * frame_skip_; }

Spec MujocoTask::spec() const {
  TANDEM_CHECK(model_ != nullptr, facts_.id, ": use_model() has not been called");
  std::vector<double> shown;
  observe(shown);
  return {.id = facts_.id,
          .observation = {{.type = ElementType::kFloat64, .shape = {static_cast<std::int64_t>(shown.size())}}},
          .action = actions_of(*model_),
          .max_episode_steps = facts_.max_episode_steps,
          .reward_threshold = facts_.reward_threshold,
          .render_fps = std::min(std::nearbyint(1 / step_duration()), kMostFramesPerSecond)};
}

void MujocoTask::show() {
  shown_.clear();
  observe(shown_);
}

MujocoTask::Observation MujocoTask::reset(NumpyGenerator& random) {
  const MujocoLibrary& mujoco = mujoco_library();
  mujoco.reset_data(model_.get(), data_.get());
  start(random, {data_->qpos, static_cast<std::size_t>(model_->nq)},
        {data_->qvel, static_cast<std::size_t>(model_->nv)});
  mujoco.forward(model_.get(), data_.get());
  mark_ = mark();
  show();
  return shown_;
}

StepResult<MujocoTask::Observation> MujocoTask::step(std::span<const float> action) {
  const MujocoLibrary& mujoco = mujoco_library();
  std::ranges::copy(action, data_->ctrl);
  for (int frame = 0; frame < frame_skip_; ++frame) mujoco.step(model_.get(), data_.get());
  if (facts_.contact_forces) mujoco.rne_post_constraint(model_.get(), data_.get());
  const Passage passed{.from = mark_, .to = mark(), .duration = step_duration()};
  mark_ = passed.to;
  show();
  const Outcome outcome = judge(passed, action);
  return {.observation = shown_, .reward = outcome.reward, .terminated = outcome.terminated};
}

void MujocoTask::render(Canvas& canvas) const {
  if (painter_ == nullptr) painter_ = painter_of(model_);
  painter_->paint(*data_, look_, canvas);
}

// What was shown and marked is saved, too: it was computed from the state before the last of MuJoCo's steps, which is
// not there any more.
std::vector<std::byte> MujocoTask::save() const {
  std::vector<double> state(static_cast<std::size_t>(mujoco_library().state_size(model_.get(), kSaved)));
  mujoco_library().get_state(model_.get(), data_.get(), state.data(), kSaved);
  StateWriter writer;
  writer.put(model_digest_);
  writer.put_range(state);
  writer.put(mark_);
  writer.put_range(shown_);
  return writer.take();
}

// A forward pass makes the simulation whole, for pictures; it may touch the state, which is therefore set again.
MujocoTask::Observation MujocoTask::load(std::span<const std::byte> bytes) {
  StateReader reader(bytes, facts_.id);
  if (const auto saved = reader.get<Sha256::Digest>(); saved != model_digest_)
    reader.fail(concat("it is of another model than ", model_name_, " is now: the SHA-256 of its model is ",
                       hex_of(saved), ", and this one's is ", hex_of(model_digest_),
                       "; give the file back that the run began with, or begin a new run with this one"));
  const std::vector<double> state = numbers(reader);
  const auto expected = static_cast<std::size_t>(mujoco_library().state_size(model_.get(), kSaved));
  if (state.size() != expected) reader.fail(concat("it has ", state.size(), " numbers, expected ", expected));
  const auto mark = reader.get<Mark>();
  const std::vector<double> shown = numbers(reader);
  if (shown.size() != shown_.size()) reader.fail(concat("it shows ", shown.size(), " numbers, not ", shown_.size()));
  reader.expect_end();
  const MujocoLibrary& mujoco = mujoco_library();
  mujoco.set_state(model_.get(), data_.get(), state.data(), static_cast<int>(kSaved));
  mujoco.forward(model_.get(), data_.get());
  mujoco.set_state(model_.get(), data_.get(), state.data(), static_cast<int>(kSaved));
  mark_ = mark;
  std::ranges::copy(shown, shown_.begin());
  return shown_;
}

}  // namespace tandem::rl
