#include "tandem/model/flat_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/model/flat_home.h"
#include "tandem/model/flat_layout.h"
#include "tandem/model/module_watch.h"
#include "tandem/model/reached_hook.h"

// How a gradient gets into flat memory. bind() makes each dense parameter's .grad a view into the flat gradients
// (kZeros), or takes it away (kNothing). Autograd adds to the view, or makes a tensor that ReachedHook copies into the
// view. The hooks also mark which parameters a pass reached. collect() then looks at every .grad: a view needs nothing
// more, a tensor that user code put in its place is copied, a missing one is absent. So parameters that no pass reached
// cost nothing, and user code may do to .grad what it does in plain LibTorch.
namespace tandem::model {
namespace {

struct Resident {
  at::Tensor parameter;
  std::uint32_t version = 0;     // of its gradient view at bind(): a later one means that something was written
  const void* sealed = nullptr;  // its gradient at seal(), or none
  std::uint32_t sealed_version = 0;
};

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

// A view without autograd's knowledge of it, and with a version counter of its own.
at::Tensor plain_view(const at::Tensor& flat, const at::Tensor& like, std::int64_t offset) {
  return flat.as_strided(like.sizes(), like.strides(), offset + flat.storage_offset()).variable_data();
}

bool is_alias(const at::Tensor& grad, const at::Tensor& view) {
  return grad.defined() && grad.layout() == at::kStrided && grad.const_data_ptr() == view.const_data_ptr() &&
         grad.sizes() == view.sizes() && grad.strides() == view.strides() && grad.dtype() == view.dtype();
}

void zero(at::Tensor& flat) {
  if (flat.is_cpu()) {
    std::memset(flat.mutable_data_ptr(), 0, flat.nbytes());  // a fifth of the cost of zero_() for a small policy
  } else {
    flat.zero_();
  }
}

}  // namespace

struct FlatParameters::State {
  std::shared_ptr<torch::nn::Module> module;
  FlatLayout layout;
  std::vector<FlatBuffer> buffers;
  std::vector<std::vector<Resident>> residents;  // per buffer and slot
  std::vector<Home> homes;                       // of all of them, in that order
  std::vector<at::Tensor> parameters;
  std::vector<std::string> frozen;
  std::shared_ptr<Reaches> marks;
  std::vector<at::Tensor> host_flags;  // per buffer; defined when the flags lie on another device
  std::vector<char> present;           // of one buffer while collect() works
  Gradients* bound = nullptr;
  Options::Start start = Options::Start::kZeros;
  std::optional<ModuleWatch> watch;
  enum class Passes { kOpen, kSealed, kWritten } passes = Passes::kOpen;  // since bind()

  // Copies each parameter into its slot and makes it a view of the slot. The tensor object stays the same, so modules
  // and optimizers that hold it see the flat memory.
  void move_in() {
    const at::NoGradGuard no_grad;
    for (auto& plan : layout.buffers) {
      const FlatBuffer& buffer = buffers.emplace_back(plan.flat);
      std::vector<Resident>& inside = residents.emplace_back();
      for (std::size_t s = 0; s < buffer.slots.size(); ++s) {
        at::Tensor parameter = layout.trainable[plan.members[s]].tensor;
        // Strides are kept where the memory has no holes (channels-last, say); a view of a larger tensor is packed.
        const at::Tensor like = parameter.is_non_overlapping_and_dense() ? parameter : parameter.detach().contiguous();
        at::Tensor view = plain_view(buffer.values, like, buffer.slots[s].offset);
        view.copy_(parameter);
        parameter.set_data(view);
        inside.push_back({.parameter = parameter});
        homes.push_back({parameter, view});
      }
    }
  }

  // Puts a ReachedHook on every trainable parameter.
  void install_hooks() {
    marks = std::make_shared<Reaches>();
    marks->marks.resize(layout.trainable.size());
    marks->places.resize(layout.trainable.size());
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const std::vector<std::size_t>& members = layout.buffers[b].members;
      for (std::size_t s = 0; s < members.size(); ++s)
        marks->places[members[s]] = {.buffer = b, .slot = s, .dense = !buffers[b].sparse, .unwritten = {}};
    }
    for (const LayoutParameter& each : layout.trainable) marks->names.push_back(each.names.front());
    for (std::size_t i = 0; i < layout.trainable.size(); ++i) hook_on(layout.trainable[i].tensor, marks, i);
  }

  // Prepares one parameter's .grad for the next passes.
  void bind_slot(std::size_t b, std::size_t s, Gradients& gradients) {
    auto& resident = residents[b][s];
    if (buffers[b].sparse) {
      resident.parameter.mutable_grad().reset();
      gradients.sparse[b][s].reset();
      return;
    }
    at::Tensor& view = gradients.views[b][s];
    at::Tensor& grad = resident.parameter.mutable_grad();
    if (start == Options::Start::kNothing) {
      grad.reset();
      marks->places[layout.buffers[b].members[s]].unwritten = view;
    } else if (!grad.is_same(view)) {
      grad = view;
    }
    resident.version = version_of(view);
  }

  // Brings the gradient of a dense parameter into its view and returns whether there is one. Without one the view is
  // zero.
  bool collect_dense(std::size_t b, std::size_t s, Gradients& gradients) {
    auto& resident = residents[b][s];
    const auto& slot = buffers[b].slots[s];
    at::Tensor& view = gradients.views[b][s];
    const at::Tensor& grad = resident.parameter.mutable_grad();
    // Module::zero_grad(false) puts a detached alias of the view in its place.
    if (grad.is_same(view) || is_alias(grad, view)) {
      if (marks->marks[layout.buffers[b].members[s]]) return true;
      // No backward pass reached it, but something may have been written: zeros by zero_grad(), a gradient computed by
      // hand, or that of an earlier step put back. Numbers other than zero make it present.
      if (version_of(view) != resident.version && view.count_nonzero().item<std::int64_t>() > 0) return true;
      if (start == Options::Start::kNothing) view.zero_();
      return false;
    }
    if (!grad.defined()) {
      view.zero_();
      return false;
    }
    if (grad.sizes() != view.sizes() || grad.scalar_type() != view.scalar_type() || grad.device() != view.device()) {
      throw DataError(concat("the gradient that was put in place of parameter \"", slot.name, "\"'s has shape ",
                             grad.sizes(), ", ", grad.scalar_type(), " on ", grad.device(), "; the parameter has ",
                             view.sizes(), ", ", view.scalar_type(), " on ", view.device()));
    }
    view.copy_(grad.is_sparse() ? grad.to_dense() : grad.detach());
    resident.parameter.mutable_grad() = view;
    return true;
  }

  // Hands out the sparse gradient as autograd made it, after checking that it is sparse and of the parameter's shape.
  void collect_sparse(std::size_t b, std::size_t s, Gradients& gradients) {
    const at::Tensor& grad = residents[b][s].parameter.mutable_grad();
    const auto& slot = buffers[b].slots[s];
    if (grad.defined() && !grad.is_sparse()) {
      throw DataError(
          concat("parameter \"", slot.name, "\" of shape ", grad.sizes(),
                 " has a dense gradient although it "
                 "was announced as sparse; a table that is also used densely (a tied output layer, say) needs "
                 "sparse(false)"));
    }
    if (grad.defined() && grad.sizes() != at::IntArrayRef(slot.shape)) {
      throw DataError(concat("the sparse gradient of parameter \"", slot.name, "\" has shape ", grad.sizes(),
                             "; the parameter has ", at::IntArrayRef(slot.shape)));
    }
    gradients.sparse[b][s] = grad.defined() ? grad.detach() : at::Tensor();
  }

  // Writes the presence flags of a buffer behind its gradients; on another device by one copy from the host.
  void write_flags(std::size_t b, at::Tensor& flat) {
    const auto first = buffers[b].values.numel();
    const auto count = static_cast<std::int64_t>(present.size());
    at::Tensor& host = host_flags[b];
    if (!flat.is_cpu() && !host.defined()) host = at::empty({count}, flat.options().device(at::kCPU));
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, flat.scalar_type(), "presence flags", [&] {
      auto* out = flat.is_cpu() ? flat.mutable_data_ptr<scalar_t>() + first : host.mutable_data_ptr<scalar_t>();
      for (std::int64_t i = 0; i < count; ++i)
        out[i] = static_cast<scalar_t>(present[static_cast<std::size_t>(i)] ? 1 : 0);
    });
    if (!flat.is_cpu()) flat.narrow(0, first, count).copy_(host);
  }
};

FlatParameters::FlatParameters(std::shared_ptr<torch::nn::Module> module, const Options& options)
    : state_(std::make_unique<State>()) {
  TANDEM_EXPECTS(module != nullptr, "FlatParameters needs a module");
  state_->layout = plan_flat_layout(*module, options);
  state_->module = std::move(module);
  state_->start = options.start;
  for (const auto& parameter : state_->layout.trainable) state_->parameters.push_back(parameter.tensor);
  for (const auto& parameter : state_->layout.frozen) state_->frozen.push_back(parameter.names.front());
  state_->move_in();
  state_->install_hooks();
  state_->watch.emplace(*state_->module);
  state_->host_flags.resize(state_->buffers.size());
}

FlatParameters::~FlatParameters() {
  for (const at::Tensor& parameter : state_->parameters) unhook(parameter, state_->marks);
  if (!state_->bound) return;
  // The views may lie in a group's memory, which the group is free to take back now.
  for (Reaches::Place& place : state_->marks->places) place.unwritten.reset();
  for (std::size_t b = 0; b < state_->buffers.size(); ++b) {
    for (auto& resident : state_->residents[b]) resident.parameter.mutable_grad().reset();
  }
}

const std::vector<FlatBuffer>& FlatParameters::buffers() const { return state_->buffers; }
int FlatParameters::groups() const { return state_->layout.groups; }
const std::vector<std::string>& FlatParameters::frozen() const { return state_->frozen; }
std::string FlatParameters::first_unfrozen() const {
  const auto it = std::ranges::find_if(state_->layout.frozen, [](auto& each) { return each.tensor.requires_grad(); });
  return it == state_->layout.frozen.end() ? "" : it->names.front();
}

const std::vector<at::Tensor>& FlatParameters::parameters() const { return state_->parameters; }
torch::nn::Module& FlatParameters::module() const { return *state_->module; }
FlatParameters::Options::Start FlatParameters::start() const { return state_->start; }

// One allocation a dense buffer holds gradients and flags, so that one collective sums both. All views are made here,
// once.
FlatParameters::Gradients FlatParameters::make_gradients(const Allocate& allocate) const {
  const at::NoGradGuard no_grad;
  const auto buffers = state_->buffers.size();
  Gradients made{.flat = std::vector<at::Tensor>(buffers),
                 .sparse = std::vector<std::vector<at::Tensor>>(buffers),
                 .dense = std::vector<at::Tensor>(buffers),
                 .presence = std::vector<at::Tensor>(buffers),
                 .views = std::vector<std::vector<at::Tensor>>(buffers)};
  for (std::size_t b = 0; b < buffers; ++b) {
    const auto& buffer = state_->buffers[b];
    if (buffer.sparse) {
      made.sparse[b].resize(buffer.slots.size());
      continue;
    }
    const auto count = buffer.values.numel() + static_cast<std::int64_t>(buffer.slots.size());
    at::Tensor flat = allocate(count, buffer.values.scalar_type());
    TANDEM_CHECK(flat.dim() == 1 && flat.numel() == count && flat.is_contiguous() &&
                     flat.scalar_type() == buffer.values.scalar_type() && flat.device() == buffer.values.device(),
                 "asked for ", count, " ", buffer.values.scalar_type(), " on ", buffer.values.device(), ", got ",
                 flat.sizes(), " ", flat.scalar_type(), " on ", flat.device());
    zero(flat);
    for (std::size_t s = 0; s < buffer.slots.size(); ++s) {
      made.views[b].push_back(plain_view(flat, state_->residents[b][s].parameter, buffer.slots[s].offset));
    }
    made.dense[b] = flat.narrow(0, 0, buffer.values.numel());
    made.presence[b] = flat.narrow(0, buffer.values.numel(), std::ssize(buffer.slots));
    made.flat[b] = std::move(flat);
  }
  return made;
}

// The order matters: a parameter that cannot come home is found before anything is changed.
void FlatParameters::bind(Gradients& gradients) {
  if (const std::string name = first_unfrozen(); !name.empty()) {
    throw ConfigError(concat("parameter \"", name,
                             "\" was frozen when FlatParameters was made and requires a gradient ",
                             "now, which nothing would apply; make FlatParameters after unfreezing"));
  }
  return_home(*state_->module, state_->homes);
  state_->passes = State::Passes::kOpen;
  state_->bound = &gradients;
  std::ranges::fill(state_->marks->marks, 0);
  for (std::size_t b = 0; b < state_->buffers.size(); ++b) {
    if (!state_->buffers[b].sparse && state_->start == Options::Start::kZeros) zero(gradients.flat[b]);
    for (std::size_t s = 0; s < state_->residents[b].size(); ++s) state_->bind_slot(b, s, gradients);
  }
}

void FlatParameters::on_reached(Reached reached) { state_->marks->listener = std::move(reached); }

void FlatParameters::on_stray(Stray stray) { state_->marks->stray = std::move(stray); }

void FlatParameters::mark_written() {
  std::ranges::fill(state_->marks->marks, 1);
  state_->passes = State::Passes::kWritten;
}

void FlatParameters::require_same_module() { state_->watch->require_unchanged(); }

void FlatParameters::seal() {
  state_->passes = State::Passes::kSealed;
  for (auto& slots : state_->residents) {
    for (Resident& each : slots) {
      const at::Tensor& grad = each.parameter.grad();
      each.sealed = grad.defined() ? grad.unsafeGetTensorImpl() : nullptr;
      each.sealed_version = grad.defined() ? version_of(grad) : 0;
    }
  }
}

void FlatParameters::require_seal() const {
  if (state_->passes != State::Passes::kSealed) return;
  for (std::size_t b = 0; b < state_->residents.size(); ++b) {
    for (std::size_t s = 0; s < state_->residents[b].size(); ++s) {
      const Resident& each = state_->residents[b][s];
      const at::Tensor& grad = each.parameter.grad();
      if (!grad.defined() && each.sealed == nullptr) continue;
      if (grad.defined() && grad.unsafeGetTensorImpl() == each.sealed && version_of(grad) == each.sealed_version)
        continue;
      throw ConfigError(concat(
          "the gradient of parameter \"", state_->buffers[b].slots[s].name, "\" was ",
          grad.defined() ? "changed" : "cleared",
          " between the backward pass and the mean over all ranks, which would "
          "lose the pass or differ from rank to rank. zero_grad() is not needed: leave it out. Clip or scale gradients "
          "after average(), before the optimizer's step"));
    }
  }
}

// Buffer by buffer: gradients into their views, then the flags of the buffer at once.
void FlatParameters::collect() {
  TANDEM_CHECK(state_->bound != nullptr, "collect() without bind()");
  require_seal();
  if (state_->passes == State::Passes::kOpen) state_->watch->require_unchanged();
  const at::NoGradGuard no_grad;
  Gradients& gradients = *state_->bound;
  auto& present = state_->present;
  for (std::size_t b = 0; b < state_->buffers.size(); ++b) {
    const auto slots = state_->residents[b].size();
    if (state_->buffers[b].sparse) {
      for (std::size_t s = 0; s < slots; ++s) state_->collect_sparse(b, s, gradients);
      continue;
    }
    present.resize(slots);
    for (std::size_t s = 0; s < slots; ++s) present[s] = state_->collect_dense(b, s, gradients) ? 1 : 0;
    state_->write_flags(b, gradients.flat[b]);
  }
}

}  // namespace tandem::model
