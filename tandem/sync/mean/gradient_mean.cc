#include "tandem/sync/mean/gradient_mean.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cmath>
#include <span>

#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/sync/mean/sparse_sum.h"

namespace tandem::sync {

namespace {

std::vector<GradientBucket> buckets_of(const model::FlatParameters& parameters,
                                       const model::FlatParameters::Gradients& sum) {
  std::vector<GradientBucket> buckets;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    if (buffer.sparse) continue;
    buckets.push_back({.values = sum.dense[b],
                       .views = sum.views[b],
                       .slots = buffer.slots,
                       .present = std::vector<char>(buffer.slots.size())});
  }
  return buckets;
}

}  // namespace

// Plan of a step (reduce): look at this replica's own part, if asked for; sum dense gradients, presence flags, buffers
// and the tally over all replicas, while buckets that have come are used already (all_reduce); gather sparse gradients;
// let the compression replace the sums, if there is one; then scale, norm and clipping (mean_of), and the mean of
// buffers.
GradientMean::GradientMean(Replica& replica, comm::Group& group, const MeanOptions& options,
                           const MakeCompression& compression)
    : replica_(replica),
      group_(group),
      options_(options),
      gradients_(replica,
                 [&](std::int64_t count, at::ScalarType dtype) {
                   return group.allocate(count, dtype, replica.placement().device);
                 }),
      exchange_(replica.parameters(), group_) {
  require_none(faults_of(options));
  squares_.resize(replica.parameters().buffers().size());
  if (!compression) return;
  buckets_ = buckets_of(replica.parameters(), gradients_.sum());
  compression_ = compression(buckets_, group_);
  if (group.size() == 1) compression_.reset();
  group_.take_bytes();
}

std::vector<std::int64_t> GradientMean::bucket_bytes() const {
  if (group_.size() == 1) return {};
  if (!compression_ && exchange_.buckets() > 0) return exchange_.bucket_bytes();
  std::vector<std::int64_t> bytes;
  for (const model::FlatBuffer& buffer : replica_.parameters().buffers())
    if (!buffer.sparse) bytes.push_back(static_cast<std::int64_t>(buffer.values.nbytes()));
  return bytes;
}

MeanGradient GradientMean::form(double lr_factor, std::int64_t step, const Limits& limits,
                                const WhileSumsCome& meanwhile) {
  gradients_.require_complete();
  gradients_.offer_rate(lr_factor);
  MeanGradient mean = reduce(step, limits, meanwhile);
  // Replicas that have left take the factor from the tally, where it may be rounded, so then all take it from there.
  if (gradients_.tally().left == 0) mean.lr_factor = lr_factor;
  return mean;
}

std::optional<MeanGradient> GradientMean::form_without_mine(std::int64_t step, const Limits& limits,
                                                            const WhileSumsCome& meanwhile) {
  gradients_.offer_nothing();
  MeanGradient mean = reduce(step, limits, meanwhile);
  if (gradients_.tally().shards == 0) return std::nullopt;
  return mean;
}

MeanGradient GradientMean::reduce(std::int64_t step, const Limits& limits, const WhileSumsCome& meanwhile) {
  const Clock::time_point start = Clock::now();
  const double before = exchange_.seconds_under_way(start);
  {
    const Span span("sync");
    bad_.reset();
    // A gradient of this replica that is not finite is found while it is still apart from the others'. The norm is a
    // quick test; only when it fails are the parameters looked at one by one.
    if (options_.check == GradientCheck::kEachReplica &&
        !std::isfinite(norm_of(gradients_.sum(), replica_.parameters())))
      bad_ = first_not_finite(gradients_.sum(), replica_.parameters());
    all_reduce(limits, meanwhile);
    gather_sparse(limits);
  }
  MeanGradient mean{.report = {.wait_seconds = seconds_since(start) - meanwhile_seconds_}};
  const Tally tally = gradients_.tally();
  if (tally.shards == 0) {
    group_.take_bytes();  // they are part of no step
    return mean;
  }
  require_rows(tally, step);
  double scale = scale_of(tally, options_.divisor);
  if (compression_) {
    const Span span("sync");
    compress(scale, limits);
    scale = 1;
  }
  const double wait_seconds = seconds_since(start) - meanwhile_seconds_;
  const Span span("norm");
  known_squares_.assign(squares_.size(), std::nullopt);
  for (std::size_t b = 0; b < squares_.size(); ++b) {
    if (squares_[b]) known_squares_[b] = squares_[b]->sum();
  }
  mean = mean_of({.gradients = gradients_.sum(),
                  .parameters = replica_.parameters(),
                  .tally = tally,
                  .scale = scale,
                  .squares = known_squares_,
                  .compression = compression_ ? compression_->describe() : "",
                  .whose = [&] { return where_not_finite(limits); }},
                 options_, step);
  mean.report.wait_seconds = wait_seconds;
  mean.hidden_seconds = before + meanwhile_seconds_;
  mean.bytes = group_.take_bytes();
  average_buffers(tally.shards);
  return mean;
}

// Starts all sums before it waits for any: a member waits for a sum only when it has started everything that others may
// wait for.
void GradientMean::all_reduce(const Limits& limits, const WhileSumsCome& meanwhile) {
  meanwhile_seconds_ = 0;
  if (group_.size() == 1) return;
  pending_.clear();
  if (!compression_) exchange_.start_rest(gradients_.sum());
  for (const at::Tensor& flags : gradients_.sum().presence) {
    if (compression_ && flags.defined()) pending_.push_back(group_.start_all_reduce(flags));
  }
  exchange_.start_others([&] {
    for (const at::Tensor& sums : gradients_.buffer_sums()) pending_.push_back(group_.start_all_reduce(sums));
    pending_.push_back(group_.start_all_reduce(gradients_.tally_to_sum()));
  });
  for (auto& each : squares_) {
    if (each) each->begin();
  }
  if (meanwhile.on_started) meanwhile.on_started();
  if (!compression_) {
    exchange_.wait(limits, [&](const BucketExchange::Piece& piece) {
      const Clock::time_point start = Clock::now();
      take_squares(piece);
      if (meanwhile.on_summed) meanwhile.on_summed(piece);
      meanwhile_seconds_ += seconds_since(start);
    });
  }
  for (comm::Pending& pending : pending_) pending.wait(limits);
  if (!compression_) exchange_.end_step(limits);
}

// Adds up squares of a piece while the next sums are on their way, so that the norm needs no pass of its own over the
// gradients.
void GradientMean::take_squares(const BucketExchange::Piece& piece) {
  const at::Tensor& sum = gradients_.sum().dense[piece.buffer];
  if (!sum.is_cpu() || options_.divisor == Divisor::kPresent) return;
  const Span span("norm");
  std::optional<model::SumOfSquaresByParts>& squares = squares_[piece.buffer];
  if (!squares) squares.emplace(sum);
  squares->take(piece.elements.begin, piece.elements.end);
}

// Afterwards the sums are the mean; sparse gradients are scaled, too.
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
    const at::Tensor flags = gradients_.sum().presence[b].to(at::kCPU, at::kFloat);
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

// All replicas come here together, because the sums have the same bits everywhere. Each tells the shard whose loss was
// not finite, and, if each was looked at, its parameter; each replica's own part of the sums is gone by now.
NotFinite GradientMean::where_not_finite(const Limits& limits) {
  const auto [shard_here, loss_here] = gradients_.shard_without_loss().value_or(std::pair(-1, 0.0));
  const std::array<double, 3> mine{static_cast<double>(shard_here), loss_here, bad_ ? static_cast<double>(*bad_) : -1};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::span(mine), all, limits);
  NotFinite found;
  for (std::size_t member = 0; mine.size() * member < all.size(); ++member) {
    const double *its = all.data() + mine.size() * member, shard = its[0], bad = its[2];
    const auto replica = group_.size() == 1 ? replica_.placement().replica : static_cast<int>(member);
    if (shard >= 0) {
      found.losses += concat(found.losses.empty() ? "" : ", ", "replica ", replica, " (shard ", static_cast<int>(shard),
                             ": ", its[1], ")");
    }
    if (bad >= 0) {
      found.gradients +=
          concat(found.gradients.empty() ? " The gradient was not finite already on replica " : ", replica ", replica,
                 " ('", slot_of(replica_.parameters(), static_cast<std::size_t>(bad)).name, "')");
    }
  }
  if (!found.gradients.empty()) found.gradients += '.';
  if (!found.losses.empty()) return found;
  found.gradients = concat(" The losses of all shards were finite",
                           options_.check == GradientCheck::kEachReplica
                               ? "."
                               : "; GradientCheck::kEachReplica (gradient_check: each_replica) tells on which replica "
                                 "the gradient was not.",
                           found.gradients);
  return found;
}

}  // namespace tandem::sync
