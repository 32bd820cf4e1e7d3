// model/module_copy.h: makes a module equal to another one of the same structure.
//
// Replicas come from a factory, so their modules have the same names but values of their own.
// Threads: single-thread for both modules.
#pragma once

namespace torch::nn {
class Module;
}

namespace tandem::model {

/// Copies all parameters (frozen ones too) and all buffers, across devices if need be. Flat ones stay flat.
/// Throws ConfigError listing everything that differs in name, shape or dtype; `to` is then unchanged.
void copy_module(const torch::nn::Module& from, torch::nn::Module& to);

}  // namespace tandem::model
