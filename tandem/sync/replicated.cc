#include "tandem/sync/replicated.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/norm.h"
#include "tandem/sync/model_description.h"
#include "tandem/sync/sparse_sum.h"

namespace tandem::sync {

Replicated::Replicated(Replica& replica, comm::Group& group, const ReplicatedOptions& options)
    : replica_(replica),
      group_(group),
      options_(options),
      gradients_(replica, [&](std::int64_t count, at::ScalarType dtype) {
        return group.allocate(count, dtype, replica.placement().device);
      }) {
  if (options.max_grad_norm && !(*options.max_grad_norm > 0)) {
    throw ConfigError(
        concat("max_grad_norm is ", *options.max_grad_norm, "; give a positive number, or none for no clipping"));
  }
}

void Replicated::begin(const Limits& limits) {
  check_same_model(limits);
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : replica_.state()) group_.broadcast(tensor, 0, limits);
  replica_.optimizer().state_changed();
  steps_ = 0;
}

void Replicated::check_same_model(const Limits& limits) {
  const std::string mine = describe_model(replica_);
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(mine.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  const std::vector<at::Tensor> all = group_.all_gather(bytes, limits);
  std::vector<std::string> descriptions;
  for (const at::Tensor& other : all) {
    descriptions.emplace_back(static_cast<const char*>(other.data_ptr()), static_cast<std::size_t>(other.numel()));
  }
  require_same_model(descriptions);
}

StepReport Replicated::step(double lr_factor, const Limits& limits) {
  gradients_.require_complete();
  const Clock::time_point start = Clock::now();
  all_reduce(limits);
  gather_sparse(limits);
  const double waited = std::chrono::duration<double>(Clock::now() - start).count();
  const double weight = gradients_.tally().data_ptr<double>()[0];
  const double shards = gradients_.tally().data_ptr<double>()[1];
  if (!(weight > 0))
    throw RunError(
        concat("step ", steps_, ": the weight of all ", shards, " shards is ", weight, "; no shard had a valid row"));
  if (options_.divisor == Divisor::kPresent) apply_present_divisor(shards);

  double scale = 1 / weight;
  const double norm = grad_norm(scale);
  if (!std::isfinite(norm)) fail_not_finite();
  // As torch's clip_grad_norm_: the coefficient is max_norm / (norm + 1e-6), at most 1.
  if (options_.max_grad_norm) scale *= std::min(1.0, *options_.max_grad_norm / (norm + 1e-6));
  replica_.optimizer().step(gradients_.sum(), scale, lr_factor);
  average_buffers(shards);
  ++steps_;
  return {.verdict = Verdict::kApplied,
          .step = steps_,
          .staleness = 0,
          .weight = weight,
          .loss = gradients_.tally().data_ptr<double>()[2] / weight,
          .grad_norm = norm,
          .wait_seconds = waited};
}

void Replicated::all_reduce(const Limits& limits) {
  if (group_.size() == 1) return;
  pending_.clear();
  for (const at::Tensor& flat : gradients_.sum().flat) {
    if (flat.defined()) pending_.push_back(group_.start_all_reduce(flat));
  }
  for (const at::Tensor& sums : gradients_.buffer_sums()) pending_.push_back(group_.start_all_reduce(sums));
  pending_.push_back(group_.start_all_reduce(gradients_.tally()));
  for (comm::Pending& pending : pending_) pending.wait(limits);
}

// Every replica gathers the sparse gradients of all shards in their order and sums each row in that order.
void Replicated::gather_sparse(const Limits& limits) {
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

void Replicated::average_buffers(double shards) {
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

void Replicated::apply_present_divisor(double shards) {
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

double Replicated::grad_norm(double scale) {
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

void Replicated::fail_not_finite() {
  const model::FlatParameters& parameters = replica_.parameters();
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    for (std::size_t slot = 0; slot < buffer.slots.size(); ++slot) {
      const at::Tensor gradient = buffer.sparse ? gradients_.sum().sparse[b][slot] : gradients_.sum().views[b][slot];
      if (!gradient.defined() || at::isfinite(buffer.sparse ? gradient._values() : gradient).all().item<bool>())
        continue;
      throw RunError(concat("step ", steps_, ": the gradient of '", buffer.slots[slot].name, "' ",
                            c10::IntArrayRef(buffer.slots[slot].shape),
                            " summed over all shards is not finite; the learning rate may be",
                            " too high, or the loss divides by zero. The parameters are those of step ", steps_, "."));
    }
  }
  throw RunError(concat("step ", steps_,
                        ": the global norm of the gradients overflows, though every element is finite; lower the",
                        " learning rate or scale the loss down"));
}

}  // namespace tandem::sync
