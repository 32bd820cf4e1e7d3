#include "python/src/environments.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "python/src/memory.h"
#include "python/src/spec_dict.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/isolation.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/python/python_envs.h"

namespace nb = nanobind;

namespace tandem::python {
namespace {

// An env group that writes into arrays of Python's. Single-thread, as the group; the interpreter's lock is given back
// while environments compute.
class BoundGroup {
 public:
  BoundGroup(const std::string& env, int count, const std::vector<std::string>& options,
             const std::vector<std::string>& wrappers, const std::vector<std::string>& plugins,
             const std::optional<std::string>& python) {
    app::TrainOptions asked;
    asked.env = env;
    asked.env_options = options;
    asked.env_wrappers = wrappers;
    asked.plugins.assign(plugins.begin(), plugins.end());
    if (python) asked.python = *python;
    const nb::gil_scoped_release released;
    group_ = environments_with(asked).make(env, count);
  }

  // Workers of environments get time for their end.
  ~BoundGroup() {
    const nb::gil_scoped_release released;
    group_.reset();
  }
  BoundGroup(const BoundGroup&) = delete;
  BoundGroup& operator=(const BoundGroup&) = delete;

  [[nodiscard]] nb::dict spec() const { return spec_dict(group_->spec()); }
  [[nodiscard]] int size() const { return group_->size(); }

  // Where the group writes from now on. By leaf [environments, ...]; the mask is None where the spec has none.
  void bind(const std::vector<Array>& observation, const std::vector<Array>& final_observation, const Array& reward,
            const Array& terminated, const Array& truncated, const Array& metrics, const std::optional<Array>& mask) {
    const rl::Spec& spec = group_->spec();
    const auto rows = static_cast<std::size_t>(group_->size());
    TANDEM_CHECK(observation.size() == spec.observation.size() && final_observation.size() == spec.observation.size(),
                 "leaves: ", observation.size());
    arrays_ = {};
    for (std::size_t leaf = 0; leaf < observation.size(); ++leaf) {
      const std::size_t bytes = rows * spec.observation[leaf].bytes();
      arrays_.observation.push_back(memory_of<std::byte>(observation[leaf], bytes));
      arrays_.final_observation.push_back(memory_of<std::byte>(final_observation[leaf], bytes));
    }
    arrays_.reward = memory_of<double>(reward, rows * sizeof(double));
    arrays_.terminated = memory_of<std::uint8_t>(terminated, rows);
    arrays_.truncated = memory_of<std::uint8_t>(truncated, rows);
    arrays_.metrics = memory_of<double>(metrics, rows * spec.metrics.size() * sizeof(double));
    if (spec.has_action_mask) {
      TANDEM_CHECK(mask.has_value(), spec.id, " has action masks");
      arrays_.action_mask =
          memory_of<std::uint8_t>(*mask, rows * static_cast<std::size_t>(rl::mask_elements(spec.action)));
    }
    kept_ = {reward, terminated, truncated, metrics};
    kept_.insert(kept_.end(), observation.begin(), observation.end());
    kept_.insert(kept_.end(), final_observation.begin(), final_observation.end());
    if (mask) kept_.push_back(*mask);
  }

  void reset(const ReadArray& seeds) {
    const auto rows = static_cast<std::size_t>(group_->size());
    const auto* first = memory_of<std::uint64_t>(seeds, rows * sizeof(std::uint64_t));
    require_bound();
    const nb::gil_scoped_release released;
    group_->reset({first, rows}, arrays_);
  }

  void step(const ReadArray& actions) {
    const rl::ActionSpace& space = group_->spec().action;
    const auto elements = static_cast<std::size_t>(group_->size() * rl::action_elements(space));
    require_bound();
    if (std::holds_alternative<rl::Box>(space)) {
      const auto* first = memory_of<float>(actions, elements * sizeof(float));
      const nb::gil_scoped_release released;
      group_->step({.box = first}, arrays_);
    } else {
      const auto* first = memory_of<std::int64_t>(actions, elements * sizeof(std::int64_t));
      const nb::gil_scoped_release released;
      group_->step({.discrete = first}, arrays_);
    }
  }

 private:
  void require_bound() const { TANDEM_CHECK(!kept_.empty(), "bind() comes first"); }
  static rl::EnvRegistry environments_with(const app::TrainOptions& asked) {
    return app::environments_of(environments(), asked);
  }

  std::unique_ptr<rl::EnvGroup> group_;
  rl::EnvArrays arrays_;
  std::vector<Array> kept_;  // for as long as the group writes into them
};

// Whether a name is one of the package's own: of one agent or of several.
bool has_env(const std::string& name) {
  const std::vector<rl::EnvEntry>& one = environments().entries();
  const auto id = [](const rl::EnvEntry& entry) -> const std::string& { return entry.spec.id; };
  return std::ranges::find(one, name, id) != one.end() || environments().find_multi_agent(name) != nullptr;
}

}  // namespace

const rl::EnvRegistry& environments() {
  static const rl::EnvRegistry all = app::with_python_kinds(rl::EnvRegistry::native());
  return all;
}

void bind_environments(nb::module_& module) {
  module.def("has_env", has_env);
  module.def("is_python_env", [](const std::string& name) { return rl::is_python_env(name); });
  nb::class_<BoundGroup>(module, "EnvGroup")
      .def(nb::init<const std::string&, int, const std::vector<std::string>&, const std::vector<std::string>&,
                    const std::vector<std::string>&, const std::optional<std::string>&>(),
           nb::arg("env"), nb::arg("count"), nb::arg("options"), nb::arg("wrappers"), nb::arg("plugins"),
           nb::arg("python").none())
      .def_prop_ro("spec", &BoundGroup::spec)
      .def_prop_ro("size", &BoundGroup::size)
      .def("bind", &BoundGroup::bind, nb::arg("observation"), nb::arg("final_observation"), nb::arg("reward"),
           nb::arg("terminated"), nb::arg("truncated"), nb::arg("metrics"), nb::arg("mask").none())
      .def("reset", &BoundGroup::reset)
      .def("step", &BoundGroup::step);
}

}  // namespace tandem::python
