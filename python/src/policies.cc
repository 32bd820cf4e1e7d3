#include "python/src/policies.h"

#include <ATen/core/Tensor.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "python/src/environments.h"
#include "python/src/memory.h"
#include "python/src/spec_dict.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/app/train/recorded_plugins.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/philox.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/rollout/agent_rows.h"

namespace nb = nanobind;

namespace tandem::python {
namespace {

// Rows that act together, and who decides for them: what `tandem eval` makes for its environments.
struct Desk {
  rl::AgentRows rows;
  std::unique_ptr<rl::Actor> actor;
};

// A policy of a checkpoint, with its normalisers. `seed`: of the actions that it draws. Threads: all; calls take turns.
// The interpreter's lock is given back while it computes.
class LoadedPolicy {
 public:
  LoadedPolicy(const std::string& source, const std::string& name, const std::vector<std::string>& plugins,
               const std::optional<std::string>& python, std::uint64_t seed)
      : seed_(seed) {
    const nb::gil_scoped_release released;
    app::NamedCode named;
    named.plugins.assign(plugins.begin(), plugins.end());
    if (python) named.python = *python;
    for (;;) {
      checkpoint_.emplace(app::find_checkpoint(source));
      try {
        read(source, name, named);
        return;
      } catch (const CheckpointError&) {
        // A run that trains has removed it; there is a newer one then, or find_checkpoint() says that there is none.
        if (std::filesystem::exists(checkpoint_->folder())) throw;
      }
    }
  }

  [[nodiscard]] nb::dict spec() const { return spec_dict(spec_); }
  [[nodiscard]] std::string env() const { return options_.env; }
  [[nodiscard]] std::string algo() const { return options_.algo; }
  [[nodiscard]] std::string folder() const { return checkpoint_->folder().string(); }
  [[nodiscard]] std::int64_t updates() const { return checkpoint_->updates(); }

  // Elements of what it remembers of a row; 0: nothing.
  [[nodiscard]] std::int64_t state_size() {
    const MutexLock lock(mutex_);
    const at::Tensor state = desk_of(1, rl::Acting::kMode).actor->state();
    return state.defined() ? state.size(1) : 0;
  }

  // Acts for so many rows of observations, by leaf [rows, ...], and writes `action`. `state`: [rows, state_size()],
  // what is remembered before and afterwards; None: nothing before, and nobody wants to know.
  void act(std::size_t rows, const std::vector<ReadArray>& observation, const std::optional<ReadArray>& mask,
           const std::optional<Array>& state, const Array& action, bool is_deterministic) {
    const nb::gil_scoped_release released;
    const MutexLock lock(mutex_);
    Desk& desk = desk_of(rows, is_deterministic ? rl::Acting::kMode : rl::Acting::kSample);
    show(desk, observation, mask);
    const at::Tensor remembered = desk.actor->state();
    if (remembered.defined() && state)
      std::memcpy(remembered.data_ptr(), state_memory(*state, remembered), remembered.nbytes());
    else
      desk.actor->episodes_ended(std::vector<std::uint8_t>(rows, 1));
    desk.rows.show(&trained_.normalizers);
    desk.rows.act(*desk.actor);
    desk.rows.to_bounds();
    if (remembered.defined() && state)
      std::memcpy(state_memory(*state, remembered), remembered.data_ptr(), remembered.nbytes());
    take_actions(desk, action);
  }

  // Plays episodes as `tandem eval` does: returns, lengths, how many were cut short, and metrics by name.
  [[nodiscard]] nb::tuple evaluate(std::int64_t episodes, std::uint64_t seed, bool is_deterministic,
                                   std::int64_t most_steps) const {
    app::Evaluation its;
    {
      const nb::gil_scoped_release released;
      Deadline next = Deadline::after(kSignalLook);
      its = app::evaluate([this](const std::string& part) { return learner::part_of(parts_, part); }, options_, known_,
                          {.acting = is_deterministic ? rl::Acting::kMode : rl::Acting::kSample,
                           .episodes = episodes,
                           .seed = seed,
                           .most_steps = most_steps,
                           .on_step = [&next](std::int64_t, std::int64_t) {
                             if (!next.expired()) return;
                             const nb::gil_scoped_acquire acquired;
                             if (PyErr_CheckSignals() != 0) throw nb::python_error();
                             next = Deadline::after(kSignalLook);
                           }});
    }
    nb::dict metrics;
    for (const app::MetricValues& metric : its.metrics) metrics[metric.name.c_str()] = metric.values;
    return nb::make_tuple(its.whole.returns, its.whole.lengths, its.whole.cut_short, metrics);
  }

 private:
  // All that acting and evaluate() need: the checkpoint may be gone tomorrow.
  void read(const std::string& source, const std::string& name, const app::NamedCode& named) {
    options_ = app::options_of(*checkpoint_);
    known_ = app::environments_of_record(environments(), app::record_of(*checkpoint_, options_, "eval", source), named);
    trained_ = app::load_policy(*checkpoint_, options_, known_, name);
    const rl::PolicyMap map = app::policies_of(options_, known_);
    const auto its = std::ranges::find(map, name, &rl::MappedPolicy::name);
    spec_ = (its == map.end() ? map.front() : *its).spec;
    parts_.clear();
    for (const rl::MappedPolicy& policy : map) {
      const rl::PolicyNames names(policy.name);
      for (const std::string& part : {names.part, names.normalizers})
        parts_.emplace_back(part, checkpoint_->read_part(part).tensors);
    }
  }

  static constexpr std::chrono::milliseconds kSignalLook{100};
  static constexpr std::size_t kMostDesks = 8;

  Desk& desk_of(std::size_t rows, rl::Acting acting) TANDEM_REQUIRES(mutex_) {
    const std::pair key{rows, acting};
    const auto found = desks_.find(key);
    if (found != desks_.end()) return found->second;
    if (desks_.size() == kMostDesks) desks_.clear();  // of users whose numbers of rows change all the time
    // Each desk that draws has a random stream of its own, also one that is made again after clear(): no draws repeat.
    const int group = acting == rl::Acting::kSample ? drawing_desks_++ : 0;
    std::unique_ptr<rl::Actor> actor =
        rl::make_actor(*trained_.policy, {.acting = acting}, static_cast<std::int64_t>(rows), seed_, group);
    actor->refresh();
    const at::Tensor state = actor->state();
    rl::AgentRows now(spec_, 1, rows, options_.normalize.options().observations, state.defined() ? state.size(1) : 0);
    std::ranges::fill(now.acts, std::uint8_t{1});
    return desks_.emplace(key, Desk{std::move(now), std::move(actor)}).first->second;
  }

  void show(Desk& desk, const std::vector<ReadArray>& observation, const std::optional<ReadArray>& mask) const {
    const rl::AgentArrays arrays = desk.rows.arrays_of(0);
    const std::size_t rows = desk.rows.rows();
    TANDEM_CHECK(observation.size() == spec_.observation.size(), "leaves: ", observation.size());
    for (std::size_t leaf = 0; leaf < observation.size(); ++leaf) {
      const std::size_t bytes = rows * spec_.observation[leaf].bytes();
      std::memcpy(arrays.env.observation[leaf], memory_of<std::byte>(observation[leaf], bytes), bytes);
    }
    if (arrays.env.action_mask == nullptr) return;
    const std::size_t entries = rows * static_cast<std::size_t>(rl::mask_elements(spec_.action));
    if (mask)
      std::memcpy(arrays.env.action_mask, memory_of<std::uint8_t>(*mask, entries), entries);
    else
      std::memset(arrays.env.action_mask, 1, entries);
  }

  static void* state_memory(const Array& state, const at::Tensor& remembered) {
    return memory_of<std::byte>(state, remembered.nbytes());
  }

  void take_actions(const Desk& desk, const Array& action) const {
    const rl::EnvActions chosen = desk.rows.actions_of(0);
    const auto elements = desk.rows.rows() * static_cast<std::size_t>(rl::action_elements(spec_.action));
    if (chosen.box != nullptr) {
      const std::size_t bytes = elements * sizeof(float);
      std::memcpy(memory_of<std::byte>(action, bytes), chosen.box, bytes);
    } else {
      const std::size_t bytes = elements * sizeof(std::int64_t);
      std::memcpy(memory_of<std::byte>(action, bytes), chosen.discrete, bytes);
    }
  }

  std::optional<model::Checkpoint> checkpoint_;
  learner::StateParts parts_;
  app::TrainOptions options_;
  rl::EnvRegistry known_;
  app::TrainedPolicy trained_{nullptr, rl::Normalizers({}, {})};
  rl::Spec spec_;
  const std::uint64_t seed_;
  Mutex mutex_;
  std::map<std::pair<std::size_t, rl::Acting>, Desk> desks_ TANDEM_GUARDED_BY(mutex_);
  int drawing_desks_ TANDEM_GUARDED_BY(mutex_) = 0;  // made so far
};

}  // namespace

void bind_policies(nb::module_& module) {
  module.def(
      "evaluation_seed",
      [](std::uint64_t seed, std::uint64_t episode) { return derive_seed(seed, SeedPurpose::kEvaluation, episode); },
      "The seed of the environment that plays an episode of an evaluation.");
  nb::class_<LoadedPolicy>(module, "Policy")
      .def(nb::init<const std::string&, const std::string&, const std::vector<std::string>&,
                    const std::optional<std::string>&, std::uint64_t>(),
           nb::arg("source"), nb::arg("name"), nb::arg("plugins"), nb::arg("python").none(), nb::arg("seed"))
      .def_prop_ro("spec", &LoadedPolicy::spec)
      .def_prop_ro("env", &LoadedPolicy::env)
      .def_prop_ro("algo", &LoadedPolicy::algo)
      .def_prop_ro("folder", &LoadedPolicy::folder)
      .def_prop_ro("updates", &LoadedPolicy::updates)
      .def_prop_ro("state_size", &LoadedPolicy::state_size)
      .def("act", &LoadedPolicy::act, nb::arg("rows"), nb::arg("observation"), nb::arg("mask").none(),
           nb::arg("state").none(), nb::arg("action"), nb::arg("deterministic"))
      .def("evaluate", &LoadedPolicy::evaluate, nb::arg("episodes"), nb::arg("seed"), nb::arg("deterministic"),
           nb::arg("most_steps"));
}

}  // namespace tandem::python
