#include "tandem/sync/variables/gradient_accumulator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/summation_tree.h"
#include "tandem/sync/mean/sparse_sum.h"

namespace tandem::sync {
namespace {

using Gradients = model::FlatParameters::Gradients;

Gradients make_zeros(const model::FlatParameters& parameters) {
  return parameters.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
}

// Note [Whole gradients have the bits of a group's sum]
// Workers' sums are added along the same tree over workers that a group's all-reduce has, each by one addition, so with
// one gradient a worker the result has the bits of Replicated, in whatever order the gradients came.
//
// The sums are added in the workers' own memory: a worker waits for the step that its gradient completes or is part of,
// and a copy of a large model's gradients would take as long as their sum. Only a worker that goes on before the step
// is made has its gradient copied (give_back()).
class WholeGradients final : public GradientAccumulator {
 public:
  WholeGradients(SparseMean sparse_mean, const model::FlatParameters& parameters)
      : GradientAccumulator(sparse_mean, parameters) {}

  void give_back(int worker) override {
    const at::NoGradGuard no_grad;
    for (Kept& kept : kept_) {
      if (kept.id.worker != worker || kept.memory == Kept::Memory::kOwn) continue;
      Gradients own = memory();
      for (std::size_t b = 0; b < own.flat.size(); ++b) {
        if (own.flat[b].defined()) own.flat[b].copy_(kept.gradients.flat[b]);
      }
      own.sparse = std::move(kept.gradients.sparse);
      kept.gradients = std::move(own);
      kept.memory = Kept::Memory::kOwn;
    }
  }

  // Clipping by the replica's own norm (`factor`) is done here, in the replica's memory.
  void add(const Contribution& from) override {
    const at::NoGradGuard no_grad;
    Kept& kept = kept_.emplace_back(
        Kept{.id = from.id, .weight = from.tally.weight, .tally = from.tally, .gradients = from.gradients});
    for (std::size_t b = 0; b < kept.gradients.flat.size() && from.factor != 1; ++b) {
      if (kept.gradients.flat[b].defined()) {
        kept.gradients.dense[b].mul_(from.factor);
      } else {
        kept.gradients.sparse[b] = scaled(from.gradients.sparse[b], from.factor);
      }
    }
  }

  // Puts the memory of the last step's gradients back, sorts this step's by worker and sequence, adds the dense ones
  // along the tree into the first, and sums the sparse ones row by row in the same order.
  Taken take() override {
    const at::NoGradGuard no_grad;
    for (Kept& each : std::exchange(taken_, {})) {
      if (each.memory == Kept::Memory::kOwn) free_.push_back(std::move(each.gradients));
    }
    taken_ = std::exchange(kept_, {});
    TANDEM_CHECK(!taken_.empty(), "a step has no gradients to take");
    std::sort(taken_.begin(), taken_.end(), [](const Kept& a, const Kept& b) { return a.id < b.id; });
    const auto at = [this](int leaf) -> Kept& { return taken_[static_cast<std::size_t>(leaf)]; };
    const int sum = tree_sum(
        {0, static_cast<int>(taken_.size())}, [](int leaf) { return leaf; },
        [&](int into, int from) {
          for (std::size_t b = 0; b < at(into).gradients.flat.size(); ++b) {
            const at::Tensor& flat = at(into).gradients.flat[b];
            if (flat.defined()) flat.add_(at(from).gradients.flat[b]);
          }
          at(into).tally += at(from).tally;
          return into;
        });
    Kept& all = at(sum);
    for (std::size_t b = 0; b < all.gradients.sparse.size(); ++b) {
      for (std::size_t slot = 0; slot < all.gradients.sparse[b].size(); ++slot) {
        std::vector<SparseRows> rows;
        for (const Kept& each : taken_)
          rows.push_back({.gradient = each.gradients.sparse[b][slot], .weight = each.weight});
        sums_.push_back(sum_rows(rows, parameters_.buffers()[b].slots[slot].shape, sparse_mean_, all.tally.weight));
      }
      std::move(sums_.begin(), sums_.end(), all.gradients.sparse[b].begin());
      sums_.clear();
    }
    return {.gradients = all.gradients, .tally = all.tally};
  }

 private:
  struct Kept {
    GradientId id;
    double weight = 0;  // of this gradient alone
    Tally tally;        // becomes that of a subtree while take() adds
    Gradients gradients;
    enum class Memory { kLent, kOwn } memory = Memory::kLent;  // of dense ones
  };

  [[nodiscard]] static std::vector<at::Tensor> scaled(std::vector<at::Tensor> sparse, double factor) {
    for (at::Tensor& each : sparse) {
      if (each.defined()) each = each.mul(factor);
    }
    return sparse;
  }

  [[nodiscard]] Gradients memory() {
    if (free_.empty()) return make_zeros(parameters_);
    Gradients gradients = std::move(free_.back());
    free_.pop_back();
    return gradients;
  }

  std::vector<Kept> kept_, taken_;  // what was taken is valid until the next take()
  std::vector<Gradients> free_;
  std::vector<at::Tensor> sums_;
};

// Keeps for each variable one running sum of the gradients' own means, and how many gradients had the variable. A sum
// depends on the order of arrival, as TensorFlow's does.
class RunningSums final : public GradientAccumulator {
 public:
  RunningSums(SparseMean sparse_mean, const model::FlatParameters& parameters)
      : GradientAccumulator(sparse_mean, parameters), sum_(make_zeros(parameters)), result_(make_zeros(parameters)) {
    for (const model::FlatBuffer& buffer : parameters.buffers()) {
      counts_.emplace_back(buffer.slots.size());
      rows_.emplace_back(buffer.slots.size());
    }
  }

  void add(const Contribution& from) override {
    const at::NoGradGuard no_grad;
    if (!(from.tally.weight > 0)) return;  // no row: nothing to take a mean of
    const double factor = from.factor / from.tally.weight;
    for (std::size_t b = 0; b < parameters_.buffers().size(); ++b) {
      const bool is_sparse = parameters_.buffers()[b].sparse;
      const at::Tensor presence = is_sparse ? at::Tensor() : from.gradients.presence[b].to(at::kDouble);
      for (std::size_t slot = 0; slot < counts_[b].size(); ++slot) {
        const at::Tensor gradient = is_sparse ? from.gradients.sparse[b][slot] : from.gradients.views[b][slot];
        if (is_sparse ? !gradient.defined() : presence.const_data_ptr<double>()[slot] == 0) continue;
        ++counts_[b][slot];
        if (is_sparse)
          rows_[b][slot].push_back({.gradient = gradient.mul(factor), .weight = 1});
        else
          sum_.views[b][slot].add_(gradient, factor);
      }
    }
    const double weight = from.tally.weight;
    tally_ += {.weight = 1,
               .shards = from.tally.shards,
               .loss = from.tally.loss / weight,
               .left = from.tally.left,
               .rate = from.tally.rate};
  }

  // Gives sums whose mean over all gradients is, for each variable, the mean over the gradients that had it.
  Taken take() override {
    const at::NoGradGuard no_grad;
    const Tally tally = std::exchange(tally_, {});
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      const bool is_sparse = parameters_.buffers()[b].sparse;
      if (!is_sparse) result_.flat[b].zero_();
      for (std::size_t slot = 0; slot < counts_[b].size(); ++slot) {
        const double count = std::exchange(counts_[b][slot], 0);
        if (is_sparse) {
          result_.sparse[b][slot] = sum_rows(std::exchange(rows_[b][slot], {}),
                                             parameters_.buffers()[b].slots[slot].shape, sparse_mean_, count);
          if (count > 0) result_.sparse[b][slot]._values().mul_(tally.weight / count);
        } else if (count > 0) {
          result_.views[b][slot].copy_(sum_.views[b][slot]).mul_(tally.weight / count);
          result_.presence[b][static_cast<std::int64_t>(slot)].fill_(count);
        }
      }
      if (!is_sparse) sum_.flat[b].zero_();
    }
    return {.gradients = result_, .tally = tally};
  }

 private:
  Gradients sum_, result_;
  std::vector<std::vector<int>> counts_;                    // by buffer and slot
  std::vector<std::vector<std::vector<SparseRows>>> rows_;  // by buffer and slot, in order of arrival
  Tally tally_;
};

}  // namespace

std::unique_ptr<GradientAccumulator> make_accumulator(Acceptance acceptance, SparseMean sparse_mean,
                                                      const model::FlatParameters& parameters) {
  if (acceptance == Acceptance::kWhole) return std::make_unique<WholeGradients>(sparse_mean, parameters);
  return std::make_unique<RunningSums>(sparse_mean, parameters);
}

}  // namespace tandem::sync
