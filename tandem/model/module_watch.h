// model/module_watch.h: finds out what was registered with a module after it was bound.
//
// A parameter that a module registers in its first forward pass lies outside of flat memory: its gradient stays on this
// replica, and its values drift apart from the others'. The same holds for a buffer.
//
// Threads: single-thread, the replica's. Ownership: the module must outlive this. Cost: one visit to each submodule,
// about 0.1 microseconds each.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tandem::model {

class ModuleWatch {
 public:
  explicit ModuleWatch(const torch::nn::Module& module);

  /// Throws ConfigError naming the first parameter or buffer that was registered, replaced or removed since. A
  /// submodule without any may come and go.
  void require_unchanged();

 private:
  using Addresses = std::vector<const void*>;
  void visit(Addresses& into) const;

  const torch::nn::Module& module_;
  Addresses seen_, now_;                                    // of submodules, their parameters and buffers, in order
  std::vector<std::pair<std::string, const void*>> names_;  // `parameter "a.weight"`, and its tensor
};

}  // namespace tandem::model
