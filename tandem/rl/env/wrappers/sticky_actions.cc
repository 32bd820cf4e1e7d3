#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/rl/env/numpy_random.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

Spec with_sticky_actions(const Spec& inner) {
  if (inner.has_action_mask)
    throw ConfigError("the environment has action masks, and the action of one step may not be allowed in the next");
  return inner;
}

// The inner group is given last_, which a step overwrites by what the caller gives, but in rows that stick.
class StickyGroup final : public WrappingGroup {
 public:
  StickyGroup(std::unique_ptr<EnvGroup> inner_group, double probability, std::uint64_t place)
      : WrappingGroup(std::move(inner_group), "sticky_actions", with_sticky_actions),
        probability_(probability),
        place_(place),
        elements_(static_cast<std::size_t>(action_elements(spec().action))),
        is_box_(std::holds_alternative<Box>(spec().action)),
        discrete_(is_box_ ? 0 : rows() * elements_),
        box_(is_box_ ? rows() * elements_ : 0),
        has_last_(rows()),
        random_(rows()) {}

 protected:
  void begun(std::span<const std::uint64_t> seeds, const EnvArrays& /*out*/) override {
    std::ranges::fill(has_last_, std::uint8_t{0});
    for (std::size_t e = 0; e < rows(); ++e)
      random_[e] = NumpyGenerator(derive_seed(seeds[e], SeedPurpose::kEnvWrapper, place_));
  }
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    for (std::size_t e = 0; e < rows(); ++e) {
      if (!makes_a_step(which, e)) continue;
      // As in StickyAction, an episode's first step draws nothing.
      const bool sticks = has_last_[e] != 0 && random_[e].uniform(0, 1) < probability_;
      if (!sticks) take(e, actions);
      has_last_[e] = 1;
    }
    step_inner(which, {.discrete = is_box_ ? nullptr : discrete_.data(), .box = is_box_ ? box_.data() : nullptr}, out);
    for (std::size_t e = 0; e < rows(); ++e) {
      if (makes_a_step(which, e) && has_ended(out, e)) has_last_[e] = 0;
    }
  }
  void put_state(StateWriter& writer) const override {
    for (const NumpyGenerator& random : random_) writer.put(random.state());
    writer.put_range(has_last_);
    writer.put_range(discrete_);
    writer.put_range(box_);
  }
  void get_state(StateReader& reader) override {
    for (NumpyGenerator& random : random_) random.set_state(reader.get<NumpyGenerator::State>());
    get_range(reader, has_last_);
    get_range(reader, discrete_);
    get_range(reader, box_);
  }

 private:
  void take(std::size_t e, const EnvActions& actions) {
    if (is_box_) {
      std::copy_n(actions.box + e * elements_, elements_, box_.data() + e * elements_);
    } else {
      std::copy_n(actions.discrete + e * elements_, elements_, discrete_.data() + e * elements_);
    }
  }
  template <typename Value>
  static void get_range(StateReader& reader, std::vector<Value>& values) {
    const std::span<const std::byte> bytes = reader.get_bytes();
    if (bytes.size() != values.size() * sizeof(Value)) reader.fail("its last actions are of another number");
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }

  const double probability_;
  const std::uint64_t place_;
  const std::size_t elements_;
  const bool is_box_;
  // [environments, elements_]: the actions of the last step, in the form that the action space has.
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_;
  std::vector<std::uint8_t> has_last_;  // by environment: 0 at an episode's begin
  std::vector<NumpyGenerator> random_;
};

}  // namespace

EnvWrapper sticky_actions(double probability) {
  return {.spec_of = with_sticky_actions,
          .around = [probability](std::unique_ptr<EnvGroup> inner, std::uint64_t place) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<StickyGroup>(std::move(inner), probability, place);
          },
          .stacks_of = same_stacks};
}

}  // namespace tandem::rl
