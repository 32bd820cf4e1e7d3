#include "tandem/sync/mean/power_sgd_compression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

// Plan of a step: each matrix M, the gradient with the memory of earlier steps, becomes P = M orthogonal(Q) (form_p),
// and all P are summed over the members. P is orthogonalised, Q = M^T P (form_q), and all Q are summed. P Q^T takes the
// gradient's place (decompress); what this member's own P Q^T leaves of its M is the memory. Parameters that are no
// matrices, or would hardly shrink, travel with the P as they are.
struct Sides {
  std::int64_t rows = 0, columns = 0, rank = 0;
};

// The shape of a parameter as a matrix. One dimension makes a matrix of one column, which cannot shrink.
Sides sides_of(const model::ParameterSlot& slot, std::int64_t rank) {
  const std::int64_t rows = slot.shape.empty() || slot.count == 0 ? 1 : slot.shape.front();
  const std::int64_t columns = slot.count / rows;
  return {.rows = rows, .columns = columns, .rank = std::min({rank, rows, columns})};
}

bool shrinks(const Sides& sides, double min_rate) {
  return sides.rank > 0 && static_cast<double>((sides.rows + sides.columns) * sides.rank) * min_rate <
                               static_cast<double>(sides.rows * sides.columns);
}

// Memory that the group reduces. A bucket may have no matrix, or nothing but matrices: then there is nothing to
// exchange.
at::Tensor allocate(comm::Group& group, std::int64_t count, at::ScalarType dtype, at::Device device) {
  return count == 0 ? at::empty({0}, at::device(device).dtype(dtype)) : group.allocate(count, dtype, device);
}

at::Tensor orthogonal(const at::Tensor& columns) { return std::get<0>(at::linalg_qr(columns, "reduced")); }

class PowerSgdCompression final : public GradientCompression {
 public:
  PowerSgdCompression(const PowerSgdOptions& options, std::span<const GradientBucket> buckets, comm::Group& group)
      : options_(options), step_(at::zeros({1}, at::kLong)) {
    std::vector<std::string> faults;
    if (options.rank < 1) faults.push_back(concat("PowerSGD's rank is ", options.rank, "; give at least 1"));
    if (options.start_step < 0)
      faults.push_back(concat("PowerSGD's start_step is ", options.start_step, "; give 0 or more"));
    if (!(options.min_rate > 0))
      faults.push_back(concat("PowerSGD's min_rate is ", options.min_rate, "; give more than 0"));
    if (!faults.empty()) throw ConfigError(std::move(faults));
    for (const GradientBucket& bucket : buckets) parts_.push_back(make_part(bucket, group));
    std::uint64_t index = 0;
    for (Part& part : parts_) {
      for (Matrix& matrix : part.matrices) draw(matrix, options.start_step, index++);
    }
  }

  // Each of the two rounds starts all sums before it waits for any, so that buckets travel while the next are computed.
  void reduce(std::span<GradientBucket> buckets, comm::Group& group, const Limits& limits) override {
    pending_.clear();
    const std::int64_t step = step_.data_ptr<std::int64_t>()[0]++;
    if (step < options_.start_step) {
      for (GradientBucket& bucket : buckets) start(bucket.values, group);
      wait_all(limits);
      return;
    }
    const auto each = [&](const auto& work) {
      for (std::size_t b = 0; b < buckets.size(); ++b) work(buckets[b], parts_[b]);
    };
    std::uint64_t index = 0;
    each([&](GradientBucket& bucket, Part& part) {
      for (Matrix& matrix : part.matrices) {
        if (options_.start == PowerSgdOptions::Start::kFresh) draw(matrix, step, index);
        ++index;
      }
      form_p(bucket, part);
      start(part.p, group);
      start(part.rest_values, group);
    });
    wait_all(limits);
    each([&](GradientBucket& bucket, Part& part) {
      form_q(bucket, part);
      start(part.q, group);
    });
    wait_all(limits);
    each([&](GradientBucket& bucket, Part& part) { decompress(bucket, part); });
  }

  [[nodiscard]] std::string describe() const override { return concat("PowerSGD of rank ", options_.rank); }

  /// "step"; for each matrix "q.NAME", equal on all members, and "memory.NAME".
  [[nodiscard]] model::NamedTensors state() override {
    model::NamedTensors all{{"step", step_}};
    for (Part& part : parts_) {
      for (Matrix& matrix : part.matrices) {
        all.emplace_back("q." + matrix.name, matrix.q);
        all.emplace_back("memory." + matrix.name, matrix.memory);
      }
    }
    return all;
  }

 private:
  struct Matrix {
    std::string name;
    std::size_t slot = 0;
    at::Tensor q, memory;    // [m, rank] and [n, m], float32 or float64
    at::Tensor gradient;     // [n, m], with the memory, while reduce() works
    at::Tensor p, q_summed;  // [n, rank] and [m, rank], on the wire
  };
  struct Part {  // of a bucket
    std::vector<Matrix> matrices;
    std::vector<std::size_t> rest;  // slots that travel as they are
    at::Tensor p, q, rest_values;   // on the wire
  };

  // Sorts the bucket's parameters into matrices and the rest, and gives each matrix its part of one flat P and one flat
  // Q, so that each travels in one sum.
  [[nodiscard]] Part make_part(const GradientBucket& bucket, comm::Group& group) const {
    const auto dtype = bucket.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::TensorOptions options = bucket.values.options().dtype(dtype);
    Part part;
    std::int64_t p_count = 0, q_count = 0, rest_count = 0;
    for (std::size_t s = 0; s < bucket.slots.size(); ++s) {
      const Sides of_slot = sides_of(bucket.slots[s], options_.rank);
      if (!shrinks(of_slot, options_.min_rate)) {
        part.rest.push_back(s);
        rest_count += bucket.slots[s].count;
        continue;
      }
      part.matrices.push_back({.name = bucket.slots[s].name,
                               .slot = s,
                               .q = at::empty({of_slot.columns, of_slot.rank}, options),
                               .memory = at::zeros({of_slot.rows, of_slot.columns}, options),
                               .gradient = {},
                               .p = {},
                               .q_summed = {}});
      p_count += of_slot.rows * of_slot.rank;
      q_count += of_slot.columns * of_slot.rank;
    }
    const at::Device device = bucket.values.device();
    part.p = allocate(group, p_count, dtype, device);
    part.q = allocate(group, q_count, dtype, device);
    part.rest_values = allocate(group, rest_count, bucket.values.scalar_type(), device);
    std::int64_t p_at = 0, q_at = 0;
    for (Matrix& matrix : part.matrices) {
      const std::int64_t rows = matrix.memory.size(0), columns = matrix.q.size(0), rank = matrix.q.size(1);
      matrix.p = part.p.narrow(0, p_at, rows * rank).view({rows, rank});
      matrix.q_summed = part.q.narrow(0, q_at, columns * rank).view({columns, rank});
      p_at += rows * rank;
      q_at += columns * rank;
    }
    return part;
  }

  // Fills Q with random numbers that are the same on every member: they depend on seed, step and place alone.
  void draw(Matrix& matrix, std::int64_t step, std::uint64_t index) const {
    Philox random(options_.seed, static_cast<std::uint64_t>(step) << 32 | index);
    const at::Tensor numbers = at::empty({matrix.q.numel()}, at::kDouble);
    std::generate_n(numbers.data_ptr<double>(), numbers.numel(), [&random] { return random.normal(); });
    matrix.q.copy_(numbers.view_as(matrix.q));
  }

  void start(const at::Tensor& flat, comm::Group& group) {
    if (flat.numel() > 0) pending_.push_back(group.start_all_reduce(flat));
  }

  void wait_all(const Limits& limits) {
    for (comm::Pending& pending : pending_) pending.wait(limits);
    pending_.clear();
  }

  // A matrix that no member's loss reached is not updated in this step: its memory and its Q stay as they are.
  void form_p(const GradientBucket& bucket, Part& part) {
    for (Matrix& matrix : part.matrices) {
      if (!bucket.present[matrix.slot]) {
        matrix.p.zero_();
        continue;
      }
      matrix.gradient = matrix.memory.add(bucket.views[matrix.slot].reshape(matrix.memory.sizes()));
      at::mm_out(matrix.p, matrix.gradient, orthogonal(matrix.q));
    }
    of_rest(bucket, part, [](const at::Tensor& ours, const at::Tensor& wire) { wire.copy_(ours); });
  }

  void form_q(const GradientBucket& bucket, Part& part) {
    for (Matrix& matrix : part.matrices) {
      if (!bucket.present[matrix.slot]) {
        matrix.q_summed.zero_();
        continue;
      }
      const at::Tensor p = orthogonal(matrix.p);
      matrix.p.copy_(p);
      at::mm_out(matrix.q_summed, matrix.gradient.t(), matrix.p);
      at::addmm_out(matrix.memory, matrix.gradient, matrix.p, matrix.q_summed.t(), /*beta=*/1, /*alpha=*/-1);
      matrix.gradient.reset();
    }
  }

  // Shows `copy` each parameter that travels as it is, and its place on the wire.
  template <typename Copy>
  static void of_rest(const GradientBucket& bucket, const Part& part, const Copy& copy) {
    std::int64_t at = 0;
    for (const std::size_t s : part.rest) {
      const model::ParameterSlot& slot = bucket.slots[s];
      copy(bucket.values.narrow(0, slot.offset, slot.count), part.rest_values.narrow(0, at, slot.count));
      at += slot.count;
    }
  }

  void decompress(GradientBucket& bucket, Part& part) {
    for (Matrix& matrix : part.matrices) {
      if (!bucket.present[matrix.slot]) continue;
      matrix.q.copy_(matrix.q_summed);
      at::Tensor& view = bucket.views[matrix.slot];
      view.copy_(at::mm(matrix.p, matrix.q.t()).view(view.sizes()));
    }
    of_rest(bucket, part, [](const at::Tensor& ours, const at::Tensor& wire) { ours.copy_(wire); });
  }

  const PowerSgdOptions options_;
  std::vector<Part> parts_;
  at::Tensor step_;  // int64 [1]
  std::vector<comm::Pending> pending_;
};

}  // namespace

MakeCompression power_sgd_compression(const PowerSgdOptions& options) {
  return [options](std::span<const GradientBucket> buckets, [[maybe_unused]] comm::Group& group) {
    return std::make_unique<PowerSgdCompression>(options, buckets, group);
  };
}

}  // namespace tandem::sync
