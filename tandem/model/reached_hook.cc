#include "tandem/model/reached_hook.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <utility>

namespace tandem::model {
namespace {

using Hook = torch::autograd::PostAccumulateGradHook;

// Of the whole process: a backward pass may run on threads of autograd's own.
std::atomic<int> running_passes = 0;

// Copies a gradient that autograd made where there was none into the flat view, and makes the view the gradient.
void write_first(at::Tensor& grad, const at::Tensor& view) {
  if (!grad.defined() || grad.is_same(view)) return;
  const at::NoGradGuard no_grad;
  view.copy_(grad.is_sparse() ? grad.to_dense() : grad);
  grad = view;
}

class ReachedHook final : public Hook {
 public:
  ReachedHook(std::shared_ptr<Reaches> reaches, std::size_t index, std::unique_ptr<Hook> next)
      : reaches_(std::move(reaches)), index_(index), next_(std::move(next)) {}

  void operator()(const at::Tensor& tensor) override {
    reaches_->marks[index_] = 1;
    const Reaches::Place& place = reaches_->places[index_];
    if (place.unwritten.defined()) write_first(tensor.mutable_grad(), place.unwritten);
    if (next_) (*next_)(tensor);
    if (place.dense && reaches_->listener) reaches_->listener(place.buffer, place.slot);
    if (reaches_->stray && running_passes == 0) reaches_->stray(reaches_->names[index_]);
  }
  [[nodiscard]] bool shares(const std::shared_ptr<Reaches>& reaches) const { return reaches_ == reaches; }
  [[nodiscard]] std::unique_ptr<Hook> take_next() { return std::move(next_); }

 private:
  std::shared_ptr<Reaches> reaches_;
  std::size_t index_;
  std::unique_ptr<Hook> next_;  // whoever hooked the parameter before
};

}  // namespace

RunningPass::RunningPass() { ++running_passes; }
RunningPass::~RunningPass() { --running_passes; }

void hook_on(const at::Tensor& parameter, const std::shared_ptr<Reaches>& reaches, std::size_t index) {
  auto& held = torch::autograd::impl::post_acc_grad_hooks(parameter);
  torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                 std::make_unique<ReachedHook>(reaches, index, std::move(held)));
}

void unhook(const at::Tensor& parameter, const std::shared_ptr<Reaches>& reaches) {
  auto& held = torch::autograd::impl::post_acc_grad_hooks(parameter);
  auto* ours = dynamic_cast<ReachedHook*>(held.get());
  if (!ours || !ours->shares(reaches)) return;
  auto next = ours->take_next();
  held = std::move(next);
}

}  // namespace tandem::model
