#include "tandem/model/optimizer_entries.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "tandem/model/optimizer_state.h"

namespace tandem::model {

// Optimizer::state() lists for each buffer its moments and then its counts of steps, in the order of the buffers.
std::map<std::string, OptimizerEntry> optimizer_entries(const Optimizer& optimizer, const FlatParameters& parameters) {
  std::map<std::string, OptimizerEntry> by_name;
  const auto named = parameters.module().named_parameters();
  const auto state = optimizer.state();
  std::size_t at = 0;
  for (const FlatBuffer& buffer : parameters.buffers()) {
    std::size_t steps = at;  // behind the moments
    while (!state[steps].first.starts_with("step.")) ++steps;
    for (std::size_t s = 0; s < buffer.slots.size(); ++s) {
      const ParameterSlot& slot = buffer.slots[s];
      const at::Tensor& parameter = named[slot.name];
      OptimizerEntry entry{.parameter = slot.name, .group = slot.group};
      const std::vector<std::string> used = moment_names(optimizer.rules()[static_cast<std::size_t>(slot.group)]);
      for (std::size_t m = at; m < steps; ++m) {
        const std::string name = state[m].first.substr(0, state[m].first.find('.'));
        if (std::ranges::find(used, name) == used.end()) continue;
        entry.moments.emplace_back(name,
                                   state[m].second.as_strided(parameter.sizes(), parameter.strides(), slot.offset));
      }
      entry.steps = state[steps].second[static_cast<std::int64_t>(s)];
      by_name.emplace(slot.name, std::move(entry));
    }
    at = steps + 1;
  }
  return by_name;
}

}  // namespace tandem::model
