// model/flat_parameters.h: the parameters of a module, and their gradients, as views into one contiguous tensor a
// dtype.
//
// One norm, one optimizer call and one collective then serve the whole model. A flat buffer holds the parameters in the
// order of their parameter group and, within a group, in the module's order; each starts at a multiple of 64 bytes and
// the gaps stay zero. Parameters whose gradients are sparse (Embedding with sparse(true), or named by the caller) lie
// in buffers of their own, without flat gradients: a preset dense gradient would densify theirs. Tied parameters appear
// once; frozen ones (requires_grad false) are left where they are and only listed.
//
// Threads: single-thread, the replica's. Ownership: keeps the module alive; the module's parameters alias `values`.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tandem::model {

/// Where a parameter lies.
struct ParameterSlot {
  std::string name;  // as named_parameters() gives it: "actor.0.weight"
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // elements from the start of its buffer
  std::int64_t count = 0;   // elements
  int group = 0;            // index of its parameter group
};

/// Parameters that one rule of the optimizer applies to. `prefixes`: names that equal one of them or begin with it and
/// a dot. The first group that matches takes a parameter; what none matches belongs to group 0.
struct ParameterGroup {
  std::string name;
  std::vector<std::string> prefixes;
};

/// Elements begin .. end-1 of a flat buffer.
struct Elements {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// `count` elements rounded up to whole cache lines: where the next tensor in a flat buffer may begin.
inline std::int64_t aligned(std::int64_t count, c10::ScalarType dtype) {
  constexpr std::int64_t kBytes = 64;
  const auto unit = kBytes / static_cast<std::int64_t>(c10::elementSize(dtype));
  return (count + unit - 1) / unit * unit;
}

/// All parameters of one dtype, dense or sparse.
struct FlatBuffer {
  at::Tensor values;                 // [count]
  std::vector<ParameterSlot> slots;  // by offset
  bool sparse = false;               // whether gradients are sparse tensors, one a slot, instead of flat
};

class FlatParameters {
 public:
  struct Options {
    std::vector<ParameterGroup> groups{};          // empty: one group of everything
    std::vector<std::string> sparse_parameters{};  // besides those of modules known to have sparse gradients
    // The .grad that a dense parameter has when passes begin: zeros, or none. With kNothing the first pass that reaches
    // it writes its gradient where kZeros has one more pass over memory and adds; an element of -0 then stays -0. Not
    // for gradients that are written by hand, in place; and a .grad that user code put aside, which is a view of this
    // memory, is overwritten by the next pass, not added to.
    enum class Start { kZeros, kNothing } start = Start::kZeros;
  };

  /// Moves the parameters of `module` into flat buffers on their device. Throws ConfigError when a group's or a sparse
  /// parameter's name matches nothing, when parameters lie on several devices, or when none requires a gradient.
  FlatParameters(std::shared_ptr<torch::nn::Module> module, const Options& options);
  ~FlatParameters();
  FlatParameters(const FlatParameters&) = delete;
  FlatParameters& operator=(const FlatParameters&) = delete;

  [[nodiscard]] const std::vector<FlatBuffer>& buffers() const;
  [[nodiscard]] int groups() const;
  /// Names of parameters that did not require gradients when this was made, and the first that does now; or "".
  [[nodiscard]] const std::vector<std::string>& frozen() const;
  [[nodiscard]] std::string first_unfrozen() const;
  /// Every trainable parameter in the module's order.
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const;
  [[nodiscard]] torch::nn::Module& module() const;
  [[nodiscard]] Options::Start start() const;

  /// A set of gradient memory that the parameters' .grad can be bound to: for dense buffer b, `flat[b]` is
  /// [count + slots]: the gradients, then one presence flag a slot (1 once a backward pass reached the parameter).
  /// For sparse buffers `flat[b]` is undefined and `sparse[b]` has one (perhaps undefined) sparse tensor a slot.
  struct Gradients {
    std::vector<at::Tensor> flat;
    std::vector<std::vector<at::Tensor>> sparse;
    // Views into `flat`, per dense buffer: without the flags, the flags alone, and one a slot, shaped as the parameter.
    std::vector<at::Tensor> dense, presence;
    std::vector<std::vector<at::Tensor>> views;
  };
  using Allocate = std::function<at::Tensor(std::int64_t count, at::ScalarType dtype)>;
  /// Gradient memory from `allocate` (a group's, so that peers can reach it), zeroed.
  [[nodiscard]] Gradients make_gradients(const Allocate& allocate) const;

  /// Makes the next backward passes accumulate into `gradients`, from zero, whatever happened to the parameters' .grad
  /// before (zero_grad(set_to_none) by user code, say). Sparse parameters start without a gradient, dense ones as
  /// Options::start says; what no pass reaches is zero from collect() on. `gradients`
  /// must stay alive until the next bind() or this object's end. A parameter that torch::load() or set_data() gave
  /// other memory comes back into its flat buffer, with its values. Throws ConfigError naming one that cannot come
  /// back (module->to() changed its device or dtype; it shares memory with another), or that was unfrozen meanwhile.
  void bind(Gradients& gradients);
  /// Called when a backward pass has added to the gradient of a dense parameter, on the thread that runs that pass: the
  /// gradient is whole unless another pass follows before collect(). An empty function ends the calls.
  using Reached = std::function<void(std::size_t buffer, std::size_t slot)>;
  void on_reached(Reached reached);
  /// Called when a backward pass that no RunningPass (reached_hook.h) announces has reached a parameter, on the thread
  /// that runs that pass; what it throws comes out of backward(). An empty function ends the calls.
  using Stray = std::function<void(const std::string& parameter)>;
  void on_stray(Stray stray);
  /// Throws ConfigError naming a parameter or buffer that was registered, replaced or removed since the module was
  /// bound (module_watch.h). collect() does so, too, after backward passes that were not sealed.
  void require_same_module();
  /// After a backward pass: from now on, until the next pass, no gradient may change. require_seal() and collect()
  /// throw ConfigError naming one that did (zero_grad(), clipping).
  void seal();
  void require_seal() const;
  /// In place of a backward pass: the caller has written the gradients itself, into the .grad of the dense parameters.
  /// Every one that has a .grad at collect() counts as present then, whatever its numbers; nobody is told by
  /// on_reached().
  void mark_written();
  /// Ends the passes that bind() began: brings into `gradients` what user code left elsewhere (a .grad that was
  /// replaced), writes the presence flags and takes the sparse gradients. A gradient that user code cleared
  /// (zero_grad(set_to_none)) and that no later pass made again counts as absent; one written by hand, in place,
  /// counts as present when an element is not zero. Throws DataError naming parameter and shape when a gradient has
  /// another shape or dtype, or is dense where a sparse one was announced.
  void collect();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::model
