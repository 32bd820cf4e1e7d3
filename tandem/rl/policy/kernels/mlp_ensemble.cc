#include "tandem/rl/policy/kernels/mlp_ensemble.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"

// The plan: rows are cut into blocks of kBlock samples. A net goes through all blocks before the next net does, so that
// its weights stay in the second-level cache. forward() leaves the input and the activations of each block for
// backward(); without backward passes all blocks share the memory of one.
namespace tandem::rl {
namespace {

bool same_shape(const Mlp::Options& a, const Mlp::Options& b) {
  return a.sizes == b.sizes && a.activation == b.activation && a.last == b.last && a.norm == b.norm;
}

template <typename Real>
std::vector<BlockNet<Real>> make_nets(const std::vector<const Mlp*>& mlps,
                                      const typename MlpEnsemble<Real>::Options& options) {
  TANDEM_CHECK(!mlps.empty() && !mlps[0]->layers().empty(), "an ensemble of ", mlps.size(), " nets needs a layer");
  TANDEM_CHECK(options.max_rows > 0, "max_rows is ", options.max_rows);
  require_compute(options.compute, options.set);
  std::vector<BlockNet<Real>> nets;
  nets.reserve(mlps.size());
  for (const Mlp* mlp : mlps) {
    TANDEM_CHECK(same_shape(mlp->options(), mlps[0]->options()), "nets of an ensemble differ in shape");
    nets.emplace_back(
        *mlp, block_kernels<Real>(options.set),
        typename BlockNet<Real>::Options{.blocks = options.passes == Passes::kForward ? 1 : blocks_of(options.max_rows),
                                         .passes = options.passes,
                                         .compute = options.compute});
  }
  return nets;
}

}  // namespace

template <typename Real>
MlpEnsemble<Real>::MlpEnsemble(const std::vector<const Mlp*>& nets, const Options& options)
    : options_(options),
      kernels_(block_kernels<Real>(options.set)),
      nets_(make_nets<Real>(nets, options)),
      input_rows_(blocks_of(options.max_rows) * kBlock * row_stride(features())),
      input_columns_(blocks_of(options.max_rows) * columns_of_block()),
      output_(static_cast<std::int64_t>(nets.size()) * options.max_rows * outputs()),
      of_output_(padded(outputs()) * kBlock),
      of_input_(options.passes == Passes::kForward ? 0 : blocks_of(options.max_rows) * columns_of_block()),
      of_input_rows_(options.passes == Passes::kForward ? 0 : options.max_rows * features()),
      transposed_(kBlock * row_stride(std::max(features(), outputs()))),
      scratch_(options.passes == Passes::kForward ? 0 : std::ranges::max(nets[0]->options().sizes)) {
  TANDEM_CHECK(options.second_features >= 0 && options.second_features <= features(), "second_features is ",
               options.second_features, " of ", features());
}

template <typename Real>
template <typename Work>
void MlpEnsemble<Real>::for_blocks(const Work& work) const {
  for (std::int64_t first = 0; first < rows_; first += kBlock) {
    const std::int64_t number = first / kBlock;
    work(Block{.number = number,
               .first_row = first,
               .samples = std::min(kBlock, rows_ - first),
               .kept = options_.passes == Passes::kForward ? 0 : number});
  }
}

template <typename Real>
BlockInput<Real> MlpEnsemble<Real>::input(const Block& block) const {
  return {.columns = input_columns_.data() + block.number * columns_of_block(),
          .rows = input_rows_.data() + block.number * kBlock * row_stride(features())};
}

// Puts the two matrices side by side. What lies behind the features of a row stays zero.
template <typename Real>
void MlpEnsemble<Real>::take(const Rows& input, const Block& block) {
  const std::int64_t second = options_.second_features, first = features() - second, stride = row_stride(features());
  Real* const rows = input_rows_.data() + block.number * kBlock * stride;
  for (std::int64_t i = 0; i < block.samples; ++i) {
    std::copy_n(input.first + (block.first_row + i) * first, first, rows + i * stride);
    if (second > 0) std::copy_n(input.second + (block.first_row + i) * second, second, rows + i * stride + first);
  }
  kernels_.transpose(rows, stride, block.samples, features(), input_columns_.data() + block.number * columns_of_block(),
                     kBlock);
}

// Writes the first `width` features of a block of columns to rows [.., width] without gaps.
template <typename Real>
void MlpEnsemble<Real>::give(const Real* columns, const Block& block, std::int64_t width, Real* rows) {
  Real* const to = rows + block.first_row * width;
  if (width == 1) {
    std::copy_n(columns, block.samples, to);
    return;
  }
  const std::int64_t stride = row_stride(width);
  kernels_.transpose(columns, kBlock, width, block.samples, transposed_.data(), stride);
  for (std::int64_t i = 0; i < block.samples; ++i) std::copy_n(transposed_.data() + i * stride, width, to + i * width);
}

// Fills of_output_ from rows [.., outputs], with zeros beyond the samples.
template <typename Real>
void MlpEnsemble<Real>::take_derivatives(const Real* rows, const Block& block) {
  const std::int64_t width = outputs(), stride = row_stride(width);
  const Real* const from = rows + block.first_row * width;
  if (width == 1) {
    std::copy_n(from, block.samples, of_output_.data());
    std::fill(of_output_.data() + block.samples, of_output_.data() + padded(block.samples), Real{0});
    return;
  }
  for (std::int64_t i = 0; i < padded(block.samples); ++i) {
    Real* const to = transposed_.data() + i * stride;
    if (i < block.samples) {
      std::copy_n(from + i * width, width, to);
    } else {
      std::fill_n(to, width, Real{0});
    }
  }
  kernels_.transpose(transposed_.data(), stride, block.samples, width, of_output_.data(), kBlock);
}

template <typename Real>
void MlpEnsemble<Real>::take(const Rows& input, std::int64_t rows) {
  TANDEM_CHECK(rows > 0 && rows <= options_.max_rows, rows, " rows of at most ", options_.max_rows);
  rows_ = rows;
  for_blocks([&](const Block& block) { take(input, block); });
}

// All blocks through one net, whose outputs go to [rows, outputs].
template <typename Real>
void MlpEnsemble<Real>::run(BlockNet<Real>& net, Real* output) {
  net.take_parameters();
  for_blocks([&](const Block& block) {
    net.forward(input(block), block.kept, block.samples);
    give(net.output(block.kept), block, outputs(), output);
  });
}

template <typename Real>
const Real* MlpEnsemble<Real>::forward(const Rows& input, std::int64_t rows) {
  take(input, rows);
  for (std::size_t i = 0; i < nets_.size(); ++i)
    run(nets_[i], output_.data() + static_cast<std::int64_t>(i) * rows * outputs());
  can_go_back_ = options_.passes == Passes::kForwardAndBackward;
  return output_.data();
}

template <typename Real>
const Real* MlpEnsemble<Real>::forward(const Rows& input, std::int64_t rows, std::span<const std::size_t> chosen) {
  TANDEM_CHECK(chosen.size() <= nets_.size(), chosen.size(), " of ", nets_.size(), " nets");
  take(input, rows);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    TANDEM_CHECK(chosen[i] < nets_.size(), "net ", chosen[i], " of ", nets_.size());
    run(nets_[chosen[i]], output_.data() + static_cast<std::int64_t>(i) * rows * outputs());
  }
  can_go_back_ = false;
  return output_.data();
}

template <typename Real>
const Real* MlpEnsemble<Real>::backward(const Real* of_output, ParameterGradients parameters,
                                        InputGradient input_part) {
  TANDEM_CHECK(can_go_back_, "backward() without a forward() of all nets to follow");
  const bool second = input_part == InputGradient::kSecond;
  const std::int64_t width = second ? options_.second_features : features();
  for (BlockNet<Real>& net : nets_) {
    if (parameters != ParameterGradients::kLeave) net.begin();
    for_blocks([&](const Block& block) {
      take_derivatives(of_output, block);
      typename BlockNet<Real>::OfInput wanted;
      if (input_part != InputGradient::kNone) {
        wanted = {.numbers = of_input(block),
                  .begin = second ? features() - width : 0,
                  .count = width,
                  .start = &net == &nets_.front() ? Product<Real>::Start::kZero : Product<Real>::Start::kKeep};
      }
      net.backward(input(block), block.kept, block.samples, of_output_.data(), parameters, wanted, scratch_);
    });
    if (parameters != ParameterGradients::kLeave) net.finish(parameters);
    of_output += rows_ * outputs();
  }
  if (input_part == InputGradient::kNone) return nullptr;
  for_blocks([&](const Block& block) { give(of_input(block), block, width, of_input_rows_.data()); });
  return of_input_rows_.data();
}

template class MlpEnsemble<float>;
template class MlpEnsemble<double>;

}  // namespace tandem::rl
