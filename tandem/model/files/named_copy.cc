#include "tandem/model/files/named_copy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

std::string kind(const at::Tensor& tensor) { return concat(c10::toString(tensor.scalar_type()), " ", tensor.sizes()); }

}  // namespace

void copy_named(const NamedTensors& saved, const NamedTensors& live) {
  std::map<std::string, at::Tensor> from(saved.begin(), saved.end());
  std::string faults;
  for (const auto& [name, tensor] : live) {
    const auto found = from.find(name);
    if (found == from.end()) {
      faults += concat("\n  - '", name, "' (", kind(tensor), ") is missing in the checkpoint");
    } else if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type()) {
      faults += concat("\n  - '", name, "' is ", kind(found->second), " in the checkpoint and ", kind(tensor),
                       " in the model");
    }
  }
  std::map<std::string, at::Tensor> to(live.begin(), live.end());
  for (const auto& [name, tensor] : saved) {
    if (to.count(name) == 0)
      faults += concat("\n  - '", name, "' (", kind(tensor), ") of the checkpoint has no place in the model");
  }
  if (!faults.empty()) throw CheckpointError("the checkpoint is of another model:" + faults);
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : to) tensor.copy_(from[name]);
}

}  // namespace tandem::model
