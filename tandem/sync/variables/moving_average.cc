#include "tandem/sync/variables/moving_average.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <set>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

at::Tensor value_of(const model::FlatBuffer& buffer, std::size_t slot) {
  const model::ParameterSlot& place = buffer.slots[slot];
  return buffer.values.narrow(0, place.offset, place.count).view(place.shape);
}

// Whether `name` is the parameter, or one of the module, that `prefix` names. "one" does not name "one_and_more".
bool begins_with(const std::string& name, const std::string& prefix) {
  return name == prefix || name.starts_with(prefix + ".");
}

}  // namespace

MovingAverage::MovingAverage(const model::FlatParameters& parameters, double decay, const std::vector<std::string>& of)
    : decay_(decay) {
  // Averages are copies on the CPU, where the shared variables lie; prefixes that match nothing are reported together.
  std::set<std::string> unmatched(of.begin(), of.end());
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    for (std::size_t slot = 0; slot < buffer.slots.size(); ++slot) {
      const std::string& name = buffer.slots[slot].name;
      bool is_averaged = of.empty();
      for (const std::string& prefix : of) {
        if (!begins_with(name, prefix)) continue;
        is_averaged = true;
        unmatched.erase(prefix);
      }
      if (!is_averaged) continue;
      places_.push_back({.buffer = b, .slot = slot});
      averages_.emplace_back(kAverages + name, value_of(buffer, slot)
                                                   .detach()
                                                   .to(at::kCPU, /*non_blocking=*/false,
                                                       /*copy=*/true));
    }
  }
  std::vector<std::string> faults;
  for (const std::string& prefix : unmatched)
    faults.push_back(concat("averages of parameters: '", prefix, "' is no parameter, nor do names begin with it"));
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

void MovingAverage::update(const std::vector<model::FlatBuffer>& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    at::Tensor average = averages_[i].second;
    average.mul_(decay_).add_(value_of(values[places_[i].buffer], places_[i].slot), 1 - decay_);
  }
}

}  // namespace tandem::sync
