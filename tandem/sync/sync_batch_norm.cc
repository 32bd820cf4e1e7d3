#include "tandem/sync/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <ostream>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

// Plan: with N values a channel over all members, mean m and s = 1 / sqrt(var + eps), forward is y = (x - m) s w + b.
// Then dL/dx = s w (dy - sum(dy) / N - (x - m) s^2 sum(dy (x - m)) / N), where L and the sums are over all members.
namespace tandem::sync {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Moments of one pass, of one member or of all; float64 [channels].
struct Moments {
  double count = 0;  // values of each channel
  at::Tensor mean, squares;
};

// [channels] as a factor of [rows, channels, ...].
at::Tensor broadcast(const at::Tensor& channels, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = channels.numel();
  return channels.view(shape);
}

// All dimensions but that of the channels.
std::vector<std::int64_t> reduced_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t d = 2; d < input.dim(); ++d) dims.push_back(d);
  return dims;
}

// Mean and squared deviations of this member's rows, with sums in float64.
Moments moments_of(const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  const std::int64_t rows = input.numel() / channels;  // and pixels
  Moments own{.count = static_cast<double>(rows), .mean = {}, .squares = {}};
  if (own.count == 0) {
    own.mean = own.squares = at::zeros({channels}, input.options().dtype(at::kDouble));
    return own;
  }
  const std::vector<std::int64_t> dims = reduced_dims(input);
  own.mean = input.sum(dims, /*keepdim=*/false, at::kDouble).div(own.count);
  const at::Tensor deviation = input - broadcast(own.mean.to(input.scalar_type()), input);
  own.squares = deviation.square().sum(dims, /*keepdim=*/false, at::kDouble);
  // The mean was rounded above, which makes the squares too large by count * (rounding)^2.
  own.squares.sub_((own.mean - own.mean.to(input.scalar_type()).to(at::kDouble)).square().mul(own.count)).clamp_min_(0);
  return own;
}

// Combines the moments of all members in the order of the ranks (Chan, Golub, LeVeque 1979), so that all have the same
// bits. A member without rows adds nothing.
Moments merge(const Moments& own, comm::Group& group, const Limits& limits) {
  const at::Tensor count = at::full({1}, own.count, own.mean.options());
  Moments all;
  for (const at::Tensor& member : group.all_gather(at::cat({count, own.mean, own.squares}), limits)) {
    const double its_count = member[0].item<double>();
    if (its_count == 0) continue;
    const std::int64_t channels = own.mean.numel();
    const at::Tensor mean = member.narrow(0, 1, channels), squares = member.narrow(0, 1 + channels, channels);
    if (all.count == 0) {
      all = {.count = its_count, .mean = mean.clone(), .squares = squares.clone()};
      continue;
    }
    const double total = all.count + its_count;
    const at::Tensor delta = mean - all.mean;
    all.mean += delta * (its_count / total);
    all.squares += squares + delta.square() * (all.count * its_count / total);
    all.count = total;
  }
  return all;
}

// The group that the backward pass exchanges with, kept in the graph.
struct Partners : torch::CustomClassHolder {
  Partners(comm::Group& its_group, Clock::duration its_patience) : group(its_group), patience(its_patience) {}
  comm::Group& group;
  Clock::duration patience;
};

class Normalize : public torch::autograd::Function<Normalize> {
 public:
  // `weight` and `bias` may be undefined. `mean` and `inverse`: in the type of the computation.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& inverse, double count,
                            const c10::intrusive_ptr<Partners>& partners) {
    context->save_for_backward({input, weight, mean, inverse});
    context->saved_data["count"] = count;
    context->saved_data["partners"] = c10::IValue::make_capsule(partners);
    const at::Tensor scale = weight.defined() ? inverse * weight : inverse;
    const at::Tensor shift = bias.defined() ? bias - mean * scale : -mean * scale;
    return at::addcmul(broadcast(shift, input), input.to(mean.scalar_type()), broadcast(scale, input))
        .to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const double count = context->saved_data["count"].toDouble();
    const auto partners = c10::static_intrusive_pointer_cast<Partners>(context->saved_data["partners"].toCapsule());
    if (at::GradMode::is_enabled()) throw RunError("SyncBatchNorm has no second derivative");

    const std::vector<std::int64_t> dims = reduced_dims(input);
    const at::Tensor dy = gradients[0].to(mean.scalar_type());
    const at::Tensor centred = input.to(mean.scalar_type()) - broadcast(mean, input);
    const at::Tensor own = at::cat({dy.sum(dims, false, at::kDouble), (dy * centred).sum(dims, false, at::kDouble)});
    at::Tensor sums = own.clone();
    partners->group.start_all_reduce(sums).wait({.deadline = Deadline::after(partners->patience), .stop = {}});

    const std::int64_t channels = mean.numel();
    const auto part = [&](const at::Tensor& of, std::int64_t index) {
      return of.narrow(0, index * channels, channels).to(mean.scalar_type());
    };
    const at::Tensor scale = weight.defined() ? inverse * weight : inverse;
    const at::Tensor towards_mean = part(sums, 0) / count;
    const at::Tensor along = part(sums, 1) * inverse.square() / count;
    const at::Tensor dx =
        (dy - broadcast(towards_mean, input) - centred * broadcast(along, input)) * broadcast(scale, input);
    const at::Tensor d_weight = weight.defined() ? (part(own, 1) * inverse).to(weight.scalar_type()) : at::Tensor();
    const at::Tensor d_bias = weight.defined() ? part(own, 0).to(weight.scalar_type()) : at::Tensor();
    return {dx.to(input.scalar_type()), d_weight, d_bias, {}, {}, {}, {}};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& norm, comm::Group& group,
                                     Clock::duration patience)
    : NormImplBase(norm), group_(&group), patience_(patience) {}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options.num_features()) {
    throw DataError(concat("SyncBatchNorm of ", options.num_features(), " channels was given an input of ",
                           input.sizes(), "; expected [rows, ", options.num_features(), ", ...]"));
  }
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  if (!is_training()) {
    const bool by_batch = !running_mean.defined();
    return at::batch_norm(input, weight, bias, running_mean, running_var, by_batch, /*momentum=*/0.0, options.eps(),
                          /*cudnn_enabled=*/false);
  }
  at::Tensor mean, inverse;
  Moments all;
  {
    const at::NoGradGuard no_grad;
    const auto dtype = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const Moments own = moments_of(input.detach().to(dtype));
    all = merge(own, *group_, {.deadline = Deadline::after(patience_), .stop = {}});
    if (all.count < 2) {
      throw DataError(concat("SyncBatchNorm was given ", all.count,
                             " values a channel on all ranks together; a variance in training needs two"));
    }
    mean = all.mean.to(dtype);
    inverse = all.squares.div(all.count).add(options.eps()).rsqrt().to(dtype);
    if (options.track_running_stats()) {
      num_batches_tracked.add_(1);
      // Without a momentum the running values are the mean over all passes.
      const double momentum = options.momentum() ? *options.momentum() : 1 / num_batches_tracked.item<double>();
      running_mean.lerp_(all.mean.to(running_mean.scalar_type()), momentum);
      running_var.lerp_(all.squares.div(all.count - 1).to(running_var.scalar_type()), momentum);
    }
  }
  return Normalize::apply(input, weight, bias, mean, inverse, all.count,
                          c10::make_intrusive<Partners>(*group_, patience_));
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "tandem::sync::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

}  // namespace tandem::sync
