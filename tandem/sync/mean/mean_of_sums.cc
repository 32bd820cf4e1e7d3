#include "tandem/sync/mean/mean_of_sums.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/norm.h"

namespace tandem::sync {
namespace {

// Scales the sum of each parameter up from the share of the shards that had a gradient for it to all shards, so that
// the one division by the total afterwards gives the mean over the shards that had one.
void apply_present_divisor(const Sums& sums) {
  const double shards = sums.tally.shards;
  for (std::size_t b = 0; b < sums.parameters.buffers().size(); ++b) {
    if (sums.parameters.buffers()[b].sparse) continue;
    const at::Tensor presence = sums.gradients.presence[b].to(at::kCPU, at::kDouble);
    for (std::size_t slot = 0; slot < sums.gradients.views[b].size(); ++slot) {
      const double present = presence.data_ptr<double>()[slot];
      if (present > 0 && present < shards) sums.gradients.views[b][slot].mul_(shards / present);
    }
  }
}

// Parameters that no shard's loss reached: a presence flag of zero, or no sparse sum.
std::int64_t count_untouched(const Sums& sums) {
  std::int64_t untouched = 0;
  for (std::size_t b = 0; b < sums.parameters.buffers().size(); ++b) {
    if (sums.parameters.buffers()[b].sparse) {
      untouched += std::ranges::count_if(sums.gradients.sparse[b], [](const auto& sum) { return !sum.defined(); });
      continue;
    }
    const at::Tensor presence = sums.gradients.presence[b].cpu();
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, presence.scalar_type(), "presence", [&] {
      const auto* flags = presence.const_data_ptr<scalar_t>();
      untouched += std::count(flags, flags + presence.numel(), static_cast<scalar_t>(0));
    });
  }
  return untouched;
}

// The norm was not finite: because an element is not, which is named, or because the sum of squares overflows.
[[noreturn]] void fail_not_finite(const Sums& sums, std::int64_t step) {
  const std::string whose = sums.whose ? concat(". ", sums.whose()) : ".";
  if (const std::optional<std::size_t> bad = first_not_finite(sums.gradients, sums.parameters)) {
    const model::ParameterSlot& slot = slot_of(sums.parameters, *bad);
    throw RunError(concat("step ", step, ": the gradient of '", slot.name, "' ", c10::IntArrayRef(slot.shape),
                          " summed over ", sums.of, " is not finite",
                          sums.compression.empty() ? "" : concat(" after ", sums.compression), whose,
                          " The learning rate may be too high, or the loss divides by zero. The parameters are ",
                          "those of step ", step, "."));
  }
  throw RunError(concat("step ", step,
                        ": the global norm of the gradients overflows, though every element is finite; lower the",
                        " learning rate or scale the loss down"));
}

}  // namespace

std::optional<std::size_t> first_not_finite(const model::FlatParameters::Gradients& gradients,
                                            const model::FlatParameters& parameters) {
  std::size_t number = 0;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    for (std::size_t slot = 0; slot < buffer.slots.size(); ++slot, ++number) {
      const at::Tensor gradient = buffer.sparse ? gradients.sparse[b][slot] : gradients.views[b][slot];
      if (!gradient.defined()) continue;
      if (!at::isfinite(buffer.sparse ? gradient._values() : gradient).all().item<bool>()) return number;
    }
  }
  return std::nullopt;
}

const model::ParameterSlot& slot_of(const model::FlatParameters& parameters, std::size_t number) {
  for (const model::FlatBuffer& buffer : parameters.buffers()) {
    if (number < buffer.slots.size()) return buffer.slots[number];
    number -= buffer.slots.size();
  }
  TANDEM_CHECK(false, "slot ", number, " beyond the last");
}

void require_rows(const Tally& tally, std::int64_t step) {
  if (tally.weight > 0) return;
  throw RunError(concat("step ", step, ": the weight of all ", tally.shards, " shards is ", tally.weight,
                        "; no shard had a valid row"));
}

double norm_of(const model::FlatParameters::Gradients& gradients, const model::FlatParameters& parameters,
               std::span<const std::optional<double>> squares) {
  double sum = 0;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    if (!parameters.buffers()[b].sparse) {
      const std::optional<double> known = b < squares.size() ? squares[b] : std::nullopt;
      sum += known ? *known : model::sum_of_squares(gradients.dense[b]);
      continue;
    }
    for (const at::Tensor& gradient : gradients.sparse[b]) {
      if (gradient.defined()) sum += model::sum_of_squares(gradient._values().reshape({-1}));
    }
  }
  return std::sqrt(sum);
}

// As torch.nn.utils.clip_grad_norm_, with its 1e-6.
double clip_coefficient(const std::optional<double>& max_norm, double norm) {
  return max_norm ? std::min(1.0, *max_norm / (norm + 1e-6)) : 1.0;
}

double scale_of(const Tally& tally, Divisor divisor) {
  return (divisor == Divisor::kShard ? tally.shards : 1) / tally.weight;
}

// The norm is that of the sums times the scale, so the sums are read once and not changed. A norm that is not finite
// means that some element is not, or that the squares overflow: only then are the elements looked at.
MeanGradient mean_of(const Sums& sums, const MeanOptions& options, std::int64_t step) {
  const Tally& tally = sums.tally;
  MeanGradient mean{.scale = sums.scale,
                    .lr_factor = tally.rate / tally.shards,
                    .left = tally.left,
                    .report = {.weight = tally.weight, .loss = tally.loss / tally.weight}};
  mean.report.untouched = count_untouched(sums);
  if (options.divisor == Divisor::kPresent) apply_present_divisor(sums);
  const double norm = norm_of(sums.gradients, sums.parameters, sums.squares) * mean.scale;
  if (!std::isfinite(norm)) fail_not_finite(sums, step);
  mean.report.grad_norm = norm;
  if (options.max_grad_norm) mean.scale *= clip_coefficient(options.max_grad_norm, norm);
  return mean;
}

}  // namespace tandem::sync
