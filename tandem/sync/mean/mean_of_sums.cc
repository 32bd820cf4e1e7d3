#include "tandem/sync/mean/mean_of_sums.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/norm.h"
#include "tandem/sync/not_finite.h"

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
  const NotFinite whose = sums.whose ? sums.whose() : NotFinite{};
  const std::optional<std::size_t> bad = first_not_finite(sums.gradients, sums.parameters);
  const std::string which =
      bad ? concat("the gradient of '", slot_of(sums.parameters, *bad).name, "' ",
                   c10::IntArrayRef(slot_of(sums.parameters, *bad).shape), " summed over ", sums.of)
          : "the global norm of the gradients";
  if (!whose.losses.empty()) {
    throw GradientNotFinite(
        concat("step ", step, ": the loss was not finite on ", whose.losses, ", and so ", which, " is not. ",
               "Look at what that loss is made of: an element of the batch that is not finite, a division by ",
               "zero, the logarithm of zero, or a number beyond the range of its dtype.", whose.gradients,
               " The parameters are those of step ", step, "."));
  }
  if (bad) {
    throw GradientNotFinite(
        concat("step ", step, ": ", which, " is not finite",
               sums.compression.empty() ? "" : concat(" after ", sums.compression), ".", whose.gradients,
               " The learning rate may be too high, or the loss divides by zero. The parameters are ", "those of step ",
               step, "."));
  }
  throw GradientNotFinite(
      concat("step ", step, ": the global norm of the gradients overflows, though every element is finite; lower the",
             " learning rate or scale the loss down"));
}

}  // namespace

// Plan: tree_ says which of a few sets of gradients the next shard writes to, and which finished sets to add. open()
// binds the module's gradients to that set; close() notes what was counted beside them and adds. After the last shard
// the sum lies in set 0, whose memory the caller has chosen.
ShardGradients::ShardGradients(Replica& replica, const model::FlatParameters::Allocate& allocate)
    : replica_(replica),
      tree_(replica.placement().mine.size()),
      tallies_(static_cast<std::size_t>(tree_.buffers())),
      tally_to_sum_(at::from_blob(tallies_.data(), {sizeof(Tally) / sizeof(double)}, at::kDouble)),
      sparse_(static_cast<std::size_t>(replica.placement().mine.size())) {
  const c10::Device device = replica.placement().device;
  const model::FlatParameters::Allocate own = [device](std::int64_t count, at::ScalarType dtype) {
    return at::zeros({count}, at::TensorOptions().dtype(dtype).device(device));
  };
  for (int set = 0; set < tree_.buffers(); ++set) {
    const model::FlatParameters::Allocate& from = set == 0 && allocate ? allocate : own;
    sets_.push_back(replica.parameters().make_gradients(from));
    std::vector<at::Tensor>& sums = buffer_sums_.emplace_back();
    for (const model::FlatModuleBuffer& buffer : replica.buffers().values()) {
      const bool mean = buffer.merge == model::FlatModuleBuffer::Merge::kMean;
      sums.push_back(from(buffer.values.numel(), mean ? buffer.values.scalar_type() : at::kLong));
    }
  }
}

void ShardGradients::open(int shard) {
  const Range mine = replica_.placement().mine;
  if (done_ == mine.size()) done_ = 0;
  TANDEM_EXPECTS(!in_pass_, "open() of shard ", shard, " before close() of shard ", mine.begin + done_);
  TANDEM_EXPECTS(shard == mine.begin + done_, "open() of shard ", shard, " where shard ", mine.begin + done_,
                 " is next; this replica makes the passes of shards ", mine.begin, " to ", mine.end - 1, " in order");
  if (done_ == 0) {
    replica_.buffers().save_start();
    // The sparse gradients of the last step are given up, so that their memory is free while those of this one are
    // made.
    for (auto& last : sparse_) {
      for (auto& slots : last) std::fill(slots.begin(), slots.end(), at::Tensor());
    }
    without_loss_.reset();
  } else {
    replica_.buffers().restore_start();
  }
  replica_.parameters().bind(sets_[static_cast<std::size_t>(tree_.next())]);
  in_pass_ = true;
}

// Notes what the shard has beside its gradients, then lets the tree add whatever sets are complete by now.
void ShardGradients::close(double weight, double loss) {
  TANDEM_EXPECTS(in_pass_, "close() without open(): call open(shard) before the shard's forward and backward pass");
  in_pass_ = false;
  replica_.parameters().collect();
  const at::NoGradGuard no_grad;
  const auto set = static_cast<std::size_t>(tree_.next());
  tallies_[set] = {.weight = weight, .shards = 1, .loss = weight * loss};
  const int shard = replica_.placement().mine.begin + done_;
  if (!std::isfinite(loss) && !without_loss_) without_loss_ = {shard, loss};
  take_buffers(shard, buffer_sums_[set]);
  sparse_[static_cast<std::size_t>(done_)] = sets_[set].sparse;
  ++done_;
  tree_.add([this](int into, int from) { merge(static_cast<std::size_t>(into), static_cast<std::size_t>(from)); });
}

// Floating buffers are summed for their mean. For all others the value of shard 0 remains: other shards add zeros.
void ShardGradients::take_buffers(int shard, std::vector<at::Tensor>& sums) {
  replica_.buffers().return_home();
  const std::vector<model::FlatModuleBuffer>& buffers = replica_.buffers().values();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (shard == 0 || buffers[i].merge == model::FlatModuleBuffer::Merge::kMean) {
      sums[i].copy_(buffers[i].values);
    } else {
      sums[i].zero_();
    }
  }
}

void ShardGradients::require_complete() const {
  TANDEM_EXPECTS(!in_pass_ && done_ == replica_.placement().mine.size(), "step() after the passes of ", done_, " of ",
                 replica_.placement().mine.size(),
                 " shards; call open(), backward() and close() for each of them first");
}

// Adds everything of set `from` to set `into`: gradients with their presence flags, buffers, and the tally.
void ShardGradients::merge(std::size_t into, std::size_t from) {
  for (std::size_t b = 0; b < sets_[into].flat.size(); ++b) {
    if (sets_[into].flat[b].defined()) sets_[into].flat[b].add_(sets_[from].flat[b]);
  }
  for (std::size_t i = 0; i < buffer_sums_[into].size(); ++i) buffer_sums_[into][i].add_(buffer_sums_[from][i]);
  tallies_[into] += tallies_[from];
}

// The replica that holds shard 0 goes on giving the buffers that are not averaged, because no other replica does.
void ShardGradients::offer_nothing() {
  TANDEM_EXPECTS(!in_pass_ && (done_ == 0 || done_ == replica_.placement().mine.size()),
                 "leave() in the middle of a step: after ", done_, " of ", replica_.placement().mine.size(), " shards");
  without_loss_.reset();
  const at::NoGradGuard no_grad;
  for (at::Tensor& flat : sets_.front().flat) {
    if (flat.defined()) flat.zero_();
  }
  const Range mine = replica_.placement().mine;
  tallies_.front() = {.left = static_cast<double>(mine.size())};
  const std::vector<model::FlatModuleBuffer>& buffers = replica_.buffers().values();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const bool keeps = mine.begin == 0 && buffers[i].merge == model::FlatModuleBuffer::Merge::kShardZero;
    if (keeps)
      buffer_sums_.front()[i].copy_(buffers[i].values);
    else
      buffer_sums_.front()[i].zero_();
  }
  std::vector<std::vector<at::Tensor>> none;
  for (const auto& slots : sets_.front().sparse) none.emplace_back(slots.size());
  sparse_.assign(static_cast<std::size_t>(mine.size()), none);
  done_ = mine.size();
}

// --- the mean -------------------------------------------------------------------------------------------------------

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
