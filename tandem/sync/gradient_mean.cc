#include "tandem/sync/gradient_mean.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/norm.h"
#include "tandem/sync/sparse_sum.h"

namespace tandem::sync {

StepReport report_of(const MeanGradient& mean, std::int64_t step) {
  return {.verdict = Verdict::kApplied,
          .step = step,
          .staleness = 0,
          .weight = mean.weight,
          .loss = mean.loss,
          .grad_norm = mean.norm,
          .wait_seconds = mean.wait_seconds};
}

namespace {

std::vector<GradientBucket> buckets_of(const model::FlatParameters& parameters,
                                       const model::FlatParameters::Gradients& sum) {
  std::vector<GradientBucket> buckets;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    if (buffer.sparse) continue;
    buckets.push_back({.values = sum.gradients(b, parameters),
                       .views = sum.views[b],
                       .slots = buffer.slots,
                       .present = std::vector<char>(buffer.slots.size())});
  }
  return buckets;
}

}  // namespace

GradientMean::GradientMean(Replica& replica, comm::Group& group, const MeanOptions& options,
                           const MakeCompression& compression)
    : replica_(replica),
      group_(group),
      options_(options),
      gradients_(replica,
                 [&](std::int64_t count, at::ScalarType dtype) {
                   return group.allocate(count, dtype, replica.placement().device);
                 }),
      exchange_(replica.parameters(), group) {
  if (options.max_grad_norm && !(*options.max_grad_norm > 0)) {
    throw ConfigError(
        concat("max_grad_norm is ", *options.max_grad_norm, "; give a positive number, or none for no clipping"));
  }
  if (!compression) return;
  buckets_ = buckets_of(replica.parameters(), gradients_.sum());
  compression_ = compression(buckets_, group);
  if (group.size() == 1) compression_.reset();
}

MeanGradient GradientMean::form(double lr_factor, std::int64_t step, const Limits& limits) {
  gradients_.require_complete();
  gradients_.offer_rate(lr_factor);
  MeanGradient mean = reduce(step, limits);
  // Who left takes the factor from the tally, and then so does everybody, because it may be rounded there.
  if (gradients_.tally_view().left == 0) mean.lr_factor = lr_factor;
  return mean;
}

std::optional<MeanGradient> GradientMean::form_without_mine(std::int64_t step, const Limits& limits) {
  gradients_.offer_nothing();
  MeanGradient mean = reduce(step, limits);
  if (gradients_.tally_view().shards == 0) return std::nullopt;
  return mean;
}

MeanGradient GradientMean::reduce(std::int64_t step, const Limits& limits) {
  const Clock::time_point start = Clock::now();
  all_reduce(limits);
  gather_sparse(limits);
  MeanGradient mean{.wait_seconds = seconds_since(start)};
  const Tally tally = gradients_.tally_view();
  if (tally.shards == 0) return mean;
  if (!(tally.weight > 0)) {
    throw RunError(concat("step ", step, ": the weight of all ", tally.shards, " shards is ", tally.weight,
                          "; no shard had a valid row"));
  }
  mean.scale = 1 / tally.weight;
  if (compression_) {
    compress(mean.scale, limits);
    mean.scale = 1;
    mean.wait_seconds = seconds_since(start);
  }
  if (options_.divisor == Divisor::kPresent) apply_present_divisor(tally.shards);
  mean.weight = tally.weight;
  mean.loss = tally.loss / tally.weight;
  mean.lr_factor = tally.rate / tally.shards;
  mean.norm = norm_of(mean.scale);
  if (!std::isfinite(mean.norm)) fail_not_finite(step);
  // As torch's clip_grad_norm_: the coefficient is max_norm / (norm + 1e-6), at most 1.
  if (options_.max_grad_norm) mean.scale *= std::min(1.0, *options_.max_grad_norm / (mean.norm + 1e-6));
  average_buffers(tally.shards);
  return mean;
}

void GradientMean::all_reduce(const Limits& limits) {
  if (group_.size() == 1) return;
  pending_.clear();
  if (compression_) {
    start_flags();
  } else {
    exchange_.start_rest(gradients_.sum());
  }
  for (const at::Tensor& sums : gradients_.buffer_sums()) pending_.push_back(group_.start_all_reduce(sums));
  pending_.push_back(group_.start_all_reduce(gradients_.tally()));
  if (!compression_) exchange_.wait(limits);
  for (comm::Pending& pending : pending_) pending.wait(limits);
  if (!compression_) exchange_.end_step(limits);
}

void GradientMean::start_flags() {
  const model::FlatParameters& parameters = replica_.parameters();
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    if (!parameters.buffers()[b].sparse)
      pending_.push_back(group_.start_all_reduce(gradients_.sum().presence(b, parameters)));
  }
}

// Afterwards the sums are the mean, sparse ones too.
void GradientMean::compress(double scale, const Limits& limits) {
  const at::NoGradGuard no_grad;
  const model::FlatParameters& parameters = replica_.parameters();
  std::size_t dense = 0;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    if (parameters.buffers()[b].sparse) {
      for (at::Tensor& sum : gradients_.sum().sparse[b]) sum = sum.defined() ? sum.mul(scale) : sum;
      continue;
    }
    GradientBucket& bucket = buckets_[dense++];
    bucket.values.mul_(scale);
    const at::Tensor flags = gradients_.sum().presence(b, parameters).to(at::kCPU, at::kFloat);
    for (std::size_t slot = 0; slot < bucket.present.size(); ++slot)
      bucket.present[slot] = flags.const_data_ptr<float>()[slot] != 0;
  }
  compression_->reduce(buckets_, group_, limits);
}

// Every replica gathers the sparse gradients of all shards in their order and sums each row in that order.
void GradientMean::gather_sparse(const Limits& limits) {
  const std::vector<model::FlatBuffer>& buffers = replica_.parameters().buffers();
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (!buffers[b].sparse) continue;
    for (std::size_t slot = 0; slot < buffers[b].slots.size(); ++slot) {
      std::vector<at::Tensor> shards;
      for (const auto& shard : gradients_.sparse()) shards.push_back(shard[b][slot]);
      gradients_.sum().sparse[b][slot] =
          sum_sparse_over_shards(shards, buffers[b].slots[slot].shape, buffers[b].values.options(), group_, limits);
    }
  }
}

void GradientMean::average_buffers(double shards) {
  const std::vector<model::FlatModuleBuffer>& buffers = replica_.buffers().values();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    at::Tensor values = buffers[i].values;
    const at::Tensor& sum = gradients_.buffer_sums()[i];
    if (buffers[i].merge == model::FlatModuleBuffer::Merge::kMean) {
      at::div_out(values, sum, at::scalar_tensor(shards, values.options()));
    } else {
      values.copy_(sum);
    }
  }
}

void GradientMean::apply_present_divisor(double shards) {
  const model::FlatParameters& parameters = replica_.parameters();
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    if (parameters.buffers()[b].sparse) continue;
    const at::Tensor presence = gradients_.sum().presence(b, parameters).to(at::kCPU, at::kDouble);
    for (std::size_t slot = 0; slot < gradients_.sum().views[b].size(); ++slot) {
      const double present = presence.data_ptr<double>()[slot];
      if (present > 0 && present < shards) gradients_.sum().views[b][slot].mul_(shards / present);
    }
  }
}

double GradientMean::norm_of(double scale) {
  double sum = 0;
  const model::FlatParameters& parameters = replica_.parameters();
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    if (!parameters.buffers()[b].sparse) {
      sum += model::sum_of_squares(gradients_.sum().gradients(b, parameters));
      continue;
    }
    for (const at::Tensor& gradient : gradients_.sum().sparse[b]) {
      if (gradient.defined()) sum += model::sum_of_squares(gradient._values().reshape({-1}));
    }
  }
  return std::sqrt(sum) * scale;
}

void GradientMean::fail_not_finite(std::int64_t step) {
  const model::FlatParameters& parameters = replica_.parameters();
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    for (std::size_t slot = 0; slot < buffer.slots.size(); ++slot) {
      const at::Tensor gradient = buffer.sparse ? gradients_.sum().sparse[b][slot] : gradients_.sum().views[b][slot];
      if (!gradient.defined() || at::isfinite(buffer.sparse ? gradient._values() : gradient).all().item<bool>())
        continue;
      throw RunError(concat("step ", step, ": the gradient of '", buffer.slots[slot].name, "' ",
                            c10::IntArrayRef(buffer.slots[slot].shape), " summed over all shards is not finite",
                            compression_ ? concat(" after ", compression_->describe()) : "",
                            "; the learning rate may be",
                            " too high, or the loss divides by zero. The parameters are those of step ", step, "."));
    }
  }
  throw RunError(concat("step ", step,
                        ": the global norm of the gradients overflows, though every element is finite; lower the",
                        " learning rate or scale the loss down"));
}

}  // namespace tandem::sync
