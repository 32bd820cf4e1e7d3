// model/torch_optimizer.h: an optimizer's state as torch.optim's state_dict() has it in Python, and back.
//
//     dict.insert("optimizer", model::torch_state_of(replica.optimizer(), replica.parameters()));
//     model::save_torch_file(dict, "run.pt");
//
//     optimizer = torch.optim.AdamW(p for p in net.parameters() if p.requires_grad)          # in Python
//     optimizer.load_state_dict(torch.load("run.pt")["optimizer"])
//
// Adam and AdamW are torch.optim.Adam and AdamW, others have their names. Parameters are numbered in the module's
// order, parameter group by parameter group, those without gradients left out.
//
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/ivalue.h>

#include "tandem/model/flat_parameters.h"
#include "tandem/model/optimizer.h"

namespace tandem::model {

/// Aliases the state; save it before the next step.
[[nodiscard]] at::IValue torch_state_of(const Optimizer& optimizer, const FlatParameters& parameters);

/// Takes moments, step counts and the learning rate of the first group; the other options stay as the optimizer was
/// made with. Throws CheckpointError listing what is missing or has another shape, and naming options that Tandem's
/// optimizers do not have (amsgrad, maximize, centered) and other optimizers; nothing is changed then.
void load_torch_state(const at::IValue& state, Optimizer& optimizer, const FlatParameters& parameters);

}  // namespace tandem::model
