#include "tandem/rl/env/native/memory_envs.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/native/classic_group.h"

namespace tandem::rl {
namespace {

// The inner group's spec with the shown elements and their bounds.
Spec shown_spec(const Spec& whole, std::string id, const std::vector<std::size_t>& shown) {
  if (whole.observation.size() != 1 || whole.observation[0].type != ElementType::kFloat32 ||
      whole.observation[0].shape.size() != 1) {
    throw ConfigError(concat(id, ": elements can be hidden of one float32 list, and ", whole.id, " shows ",
                             describe(whole.observation[0]), " in ", whole.observation.size(), " leaves"));
  }
  const Leaf& all = whole.observation[0];
  Leaf leaf{.name = all.name, .type = all.type, .shape = {static_cast<std::int64_t>(shown.size())}};
  for (const std::size_t element : shown) {
    if (element >= static_cast<std::size_t>(all.count()))
      throw ConfigError(concat(id, ": element ", element, " of the ", all.count(), " that ", whole.id, " shows"));
    if (all.low.empty()) continue;
    leaf.low.push_back(all.low[element]);
    leaf.high.push_back(all.high[element]);
  }
  Spec spec = whole;
  spec.id = std::move(id);
  spec.observation = {leaf};
  return spec;
}

// The group of show_elements().
class ShownElements final : public EnvGroup {
 public:
  ShownElements(std::unique_ptr<EnvGroup> inner, std::string id, std::vector<std::size_t> shown)
      : inner_(std::move(inner)),
        shown_(std::move(shown)),
        whole_(*inner_),
        spec_(shown_spec(inner_->spec(), std::move(id), shown_)) {}

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return inner_->size(); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override {
    inner_->reset(seeds, inner_arrays(out));
    show_all(out);
  }
  void step(const EnvActions& actions, const EnvArrays& out) override {
    inner_->step(actions, inner_arrays(out));
    show_all(out);
    if (out.final_observation.empty()) return;
    for (std::size_t row = 0; row < whole_.rows(); ++row) {
      if ((out.terminated[row] | out.truncated[row]) != 0)
        show(whole_.arrays().final_observation, row, out.final_observation);
    }
  }
  [[nodiscard]] bool can_save() const override { return inner_->can_save(); }
  [[nodiscard]] std::vector<std::byte> save() const override { return inner_->save(); }
  void load(std::span<const std::byte> state, const EnvArrays& out) override {
    inner_->load(state, inner_arrays(out));
    show_all(out);
  }
  [[nodiscard]] bool can_render() const override { return inner_->can_render(); }
  void render(int env, Canvas& canvas) const override { inner_->render(env, canvas); }
  void watch_ends(std::function<void(int env)> at_end) override { inner_->watch_ends(std::move(at_end)); }

 private:
  // The inner group writes observations to memory of ours, and all else straight to the caller.
  [[nodiscard]] const EnvArrays& inner_arrays(const EnvArrays& out) {
    arrays_ = out;  // takes no memory but the first time
    arrays_.observation = whole_.arrays().observation;
    if (!out.final_observation.empty()) arrays_.final_observation = whole_.arrays().final_observation;
    return arrays_;
  }
  // Copies the shown elements of one row. `whole` holds rows of the inner group, and `out` rows of this one.
  void show(const std::vector<std::byte*>& whole, std::size_t row, const std::vector<std::byte*>& out) const {
    const auto elements = static_cast<std::size_t>(inner_->spec().observation[0].count());
    const float* from = reinterpret_cast<const float*>(whole[0]) + row * elements;
    float* to = reinterpret_cast<float*>(out[0]) + row * shown_.size();
    for (std::size_t i = 0; i < shown_.size(); ++i) to[i] = from[shown_[i]];
  }
  void show_all(const EnvArrays& out) const {
    for (std::size_t row = 0; row < whole_.rows(); ++row) show(whole_.arrays().observation, row, out.observation);
  }

  const std::unique_ptr<EnvGroup> inner_;
  // Indices into a row of the inner group, in the order in which they are shown.
  const std::vector<std::size_t> shown_;
  // Memory for the observations of the inner group.
  const EnvBuffers whole_;
  EnvArrays arrays_;
  const Spec spec_;
};

}  // namespace

std::unique_ptr<EnvGroup> show_elements(std::unique_ptr<EnvGroup> inner, std::string id,
                                        std::vector<std::size_t> shown) {
  return std::make_unique<ShownElements>(std::move(inner), std::move(id), std::move(shown));
}

std::unique_ptr<EnvGroup> make_masked_cartpole(int count) {
  return show_elements(make_cartpole(count), "MaskedCartPole-v1", {0, 2});
}

std::unique_ptr<EnvGroup> make_masked_pendulum(int count) {
  return show_elements(make_pendulum(count), "MaskedPendulum-v1", {0, 1});
}

}  // namespace tandem::rl
