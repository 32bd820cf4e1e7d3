// model/reached_hook.h: notices when a backward pass has made the gradient of a parameter. Internal to FlatParameters,
// but for RunningPass.
//
// Threads: a hook runs on the thread that runs the backward pass, which may be one of autograd's own.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tandem/model/flat_parameters.h"

namespace tandem::model {

/// Announces backward passes of this process while it lives.
class RunningPass {
 public:
  RunningPass();
  ~RunningPass();
  RunningPass(const RunningPass&) = delete;
  RunningPass& operator=(const RunningPass&) = delete;
};

/// What the hooks of one FlatParameters write and read; by the parameters' numbers.
struct Reaches {
  std::vector<char> marks;  // a backward pass reached it
  struct Place {
    std::size_t buffer = 0, slot = 0;
    bool dense = true;
    at::Tensor unwritten;  // where its gradient belongs, when passes start with nothing
  };
  std::vector<Place> places;
  FlatParameters::Reached listener;
  FlatParameters::Stray stray;
  std::vector<std::string> names;  // for stray
};

/// Puts a hook on parameter number `index`, in front of one that is already there. It shares `reaches`, because a graph
/// that is still alive may hold the parameter longer than FlatParameters lives.
void hook_on(const at::Tensor& parameter, const std::shared_ptr<Reaches>& reaches, std::size_t index);
/// Takes the hook off and leaves those of others in place. Where somebody hooked on later, ours stays, and only sets a
/// mark that nobody reads.
void unhook(const at::Tensor& parameter, const std::shared_ptr<Reaches>& reaches);

}  // namespace tandem::model
