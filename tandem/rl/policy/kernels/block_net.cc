#include "tandem/rl/policy/kernels/block_net.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tandem/base/check.h"

// The plan of a block:
//   forward   each layer is one product W x + b over the samples, then the norm if there is one, then the activation;
//   backward  from the last layer down: the derivatives times the activation's slope, through the norm; their sums over
//             samples for the bias; their product with the layer's inputs for the weights; their product with W for the
//             layer below.
namespace tandem::rl {
namespace {

// Calls work(begin, count) for the numbers of [rows, kBlock] that belong to samples: in one piece where all do.
template <typename Work>
void for_samples(std::int64_t rows, std::int64_t samples, const Work& work) {
  if (padded(samples) == kBlock) return work(0, rows * kBlock);
  for (std::int64_t row = 0; row < rows; ++row) work(row * kBlock, padded(samples));
}

template <typename Real>
void write_or_add(const Real* sums, std::int64_t count, std::int64_t stride, Real* gradient,
                  ParameterGradients parameters) {
  if (parameters == ParameterGradients::kAdd) {
    for (std::int64_t i = 0; i < count; ++i) gradient[i] += sums[i * stride];
  } else if (stride == 1) {
    std::memcpy(gradient, sums, static_cast<std::size_t>(count) * sizeof(Real));
  } else {
    for (std::int64_t i = 0; i < count; ++i) gradient[i] = sums[i * stride];
  }
}

// The sum of kPanel numbers as a tree, so that the order of additions does not depend on the width of vectors.
template <typename Real>
Real lane_sum(const Real* lanes) {
  Real sum[kPanel];
  std::copy_n(lanes, kPanel, sum);
  for (std::int64_t width = kPanel / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) sum[lane] += sum[lane + width];
  }
  return sum[0];
}

template <typename Real>
void write_lane_sums(const AlignedArray<Real>& lanes, const at::Tensor& parameter, ParameterGradients parameters) {
  Real* gradient = gradient_memory<Real>(parameter);
  for (std::int64_t i = 0; i < parameter.numel(); ++i) {
    const Real sum = lane_sum(lanes.data() + i * kPanel);
    gradient[i] = parameters == ParameterGradients::kAdd ? gradient[i] + sum : sum;
  }
}

}  // namespace

// The kind is checked on each call: user code may have replaced the .grad.
template <typename Real>
Real* gradient_memory(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  TANDEM_CHECK(gradient.defined() && parameter.is_contiguous() && gradient.is_contiguous() &&
                   gradient.sizes() == parameter.sizes() && gradient.scalar_type() == c10::CppTypeToScalarType<Real>(),
               "a parameter of shape ", parameter.sizes(), " has no gradient of its kind to write to");
  return gradient.mutable_data_ptr<Real>();
}

template <typename Real>
void write_lane_sums(const Real* lanes, std::int64_t rows, Real* sums) {
  for (std::int64_t row = 0; row < rows; ++row) sums[row] = lane_sum(lanes + row * kPanel);
}

template <typename Real>
BlockNet<Real>::BlockNet(const Mlp& mlp, const BlockKernels<Real>& kernels, const Options& options)
    : kernels_(kernels), activation_(mlp.options().activation) {
  TANDEM_CHECK((std::is_same_v<Real, float>) || options.compute == Compute::kFloat32, "float64 is not rounded");
  for (std::size_t i = 0; i < mlp.layers().size(); ++i) layers_.push_back(make_layer(mlp, i, options));
}

template <typename Real>
typename BlockNet<Real>::Layer BlockNet<Real>::make_layer(const Mlp& mlp, std::size_t i, const Options& options) const {
  const torch::nn::Linear& linear = mlp.layers()[i];
  const std::int64_t inputs = linear->weight.size(1), outputs = linear->weight.size(0);
  const bool activated = mlp.is_activated(i), has_norm = activated && !mlp.norms().empty();
  const bool rounds = options.compute != Compute::kFloat32 && Bfloat16Layer::pays(inputs, outputs);
  const Along along = rounds ? Along::kInputs : choose(inputs, outputs, i == 0 ? options.rows : InputRows::kMissing);
  const std::int64_t numbers = options.blocks * padded(outputs) * kBlock;
  const auto where = [](bool wanted, std::int64_t count) { return AlignedArray<Real>(wanted ? count : 0); };
  const bool sums = options.passes == Passes::kForwardAndBackward;
  const std::int64_t weights = along == Along::kInputs ? padded(outputs) * padded(inputs) : inputs * padded(outputs);
  const bool is_laid_out = along == Along::kInputs && inputs == padded(inputs) && outputs == padded(outputs);
  const SumsOfWeights where_summed = is_laid_out ? options.sums : SumsOfWeights::kApart;
  return {.weight = linear->weight,
          .bias = linear->bias,
          .scale = has_norm ? mlp.norms()[i]->weight : at::Tensor(),
          .shift = has_norm ? mlp.norms()[i]->bias : at::Tensor(),
          .inputs = inputs,
          .outputs = outputs,
          .activated = activated,
          .along = along,
          .output = where(true, numbers),
          .before = where(activated && needs_argument(activation_), numbers),
          .normal = where(has_norm, numbers),
          .inverse_deviation = where(has_norm, options.blocks * kBlock),
          .sums = where_summed,
          .weight_sum = where(sums && where_summed == SumsOfWeights::kApart, weights),
          .bias_sum = where(sums, outputs * kPanel),
          .scale_sum = where(sums && has_norm, outputs * kPanel),
          .shift_sum = where(sums && has_norm, outputs * kPanel),
          .rounded = rounds ? std::make_unique<Bfloat16Layer>(inputs, outputs, options.compute) : nullptr};
}

// In multiply-adds of vectors a sample; a transposition takes about three a panel, and a single panel's sums wait for
// each other.
template <typename Real>
typename BlockNet<Real>::Along BlockNet<Real>::choose(std::int64_t inputs, std::int64_t outputs, InputRows rows) {
  const auto cost = [](std::int64_t across, std::int64_t along) {
    return across * padded(along) / kPanel * (along <= kPanel ? 2 : 1);
  };
  const std::int64_t by_inputs = cost(outputs, inputs) + (rows == InputRows::kGiven ? 0 : 3 * padded(inputs) / kPanel);
  return by_inputs <= cost(inputs, outputs) + 3 * padded(outputs) / kPanel ? Along::kInputs : Along::kOutputs;
}

// The sums of weights begin with the product of the first block, which overwrites them.
template <typename Real>
void BlockNet<Real>::begin() {
  for (Layer& layer : layers_) {
    layer.has_sum = false;
    std::fill_n(layer.bias_sum.data(), layer.outputs * kPanel, Real{0});
    if (!layer.has_norm()) continue;
    std::fill_n(layer.scale_sum.data(), layer.outputs * kPanel, Real{0});
    std::fill_n(layer.shift_sum.data(), layer.outputs * kPanel, Real{0});
  }
}

template <typename Real>
Real* BlockNet<Real>::output(std::int64_t block) {
  return layers_.back().output.data() + layers_.back().at(block);
}

template <typename Real>
const Real* BlockNet<Real>::last_input(const BlockInput<Real>& input, std::int64_t block) const {
  if (layers_.size() == 1) return input.columns;
  const Layer& before = layers_[layers_.size() - 2];
  return before.output.data() + before.at(block);
}

// The numbers that the activation's slope is computed from: its argument, or its result.
template <typename Real>
Real* BlockNet<Real>::argument(Layer& layer, std::int64_t block) const {
  AlignedArray<Real>& kept = layer.activated && needs_argument(activation_) ? layer.before : layer.output;
  return kept.data() + layer.at(block);
}

template <typename Real>
NormBlock<Real> BlockNet<Real>::norm_block(Layer& layer, std::int64_t block) const {
  return {.features = layer.outputs,
          .samples = padded(samples_),
          .scale = layer.scale.template const_data_ptr<Real>(),
          .shift = layer.shift.template const_data_ptr<Real>(),
          .normal = layer.normal.data() + layer.at(block),
          .inverse_deviation = layer.inverse_deviation.data() + block * kBlock};
}

template <typename Real>
void BlockNet<Real>::take_parameters() {
  if constexpr (std::is_same_v<Real, float>) {
    for (const Layer& layer : layers_) {
      if (layer.rounded) layer.rounded->take(layer.weight.template const_data_ptr<Real>());
    }
  }
}

// The product W x + b.
template <typename Real>
void BlockNet<Real>::multiply(const Layer& layer, const Real* below, Real* to) const {
  const Real* const bias = layer.bias.template const_data_ptr<Real>();
  if constexpr (std::is_same_v<Real, float>) {
    if (layer.rounded) return layer.rounded->forward(below, padded(samples_), bias, to);
  }
  kernels_.multiply({.rows = layer.outputs,
                     .columns = padded(samples_),
                     .depth = layer.inputs,
                     .a = layer.weight.template const_data_ptr<Real>(),
                     .a_row = layer.inputs,
                     .a_depth = 1,
                     .b = below,
                     .b_stride = kBlock,
                     .c = to,
                     .c_stride = kBlock,
                     .start = Product<Real>::Start::kBias,
                     .bias = bias});
}

template <typename Real>
void BlockNet<Real>::multiply_back(const Layer& layer, const Real* gradient, const OfInput& to) const {
  if constexpr (std::is_same_v<Real, float>) {
    if (layer.rounded)
      return layer.rounded->to_inputs(gradient, padded(samples_), to.begin, to.count, to.numbers, to.start);
  }
  if (to.layout == OfInput::Layout::kRows) return multiply_back_to_rows(layer, gradient, to);
  kernels_.multiply({.rows = to.count,
                     .columns = padded(samples_),
                     .depth = layer.outputs,
                     .a = layer.weight.template const_data_ptr<Real>() + to.begin,
                     .a_row = 1,
                     .a_depth = layer.inputs,
                     .b = gradient,
                     .b_stride = kBlock,
                     .c = to.numbers,
                     .c_stride = kBlock,
                     .start = to.start});
}

// Multiplies as for columns, with the factors in turned places: each sum adds the same products in the same order, so
// its bits are the same.
template <typename Real>
void BlockNet<Real>::multiply_back_to_rows(const Layer& layer, const Real* gradient, const OfInput& to) const {
  kernels_.multiply({.rows = samples_,
                     .columns = to.count,
                     .depth = layer.outputs,
                     .a = gradient,
                     .a_row = 1,
                     .a_depth = kBlock,
                     .b = layer.weight.template const_data_ptr<Real>() + to.begin,
                     .b_stride = layer.inputs,
                     .c = to.numbers,
                     .c_stride = row_stride(to.count),
                     .start = to.start});
}

template <typename Real>
void BlockNet<Real>::forward(const BlockInput<Real>& input, std::int64_t block, std::int64_t samples) {
  samples_ = samples;
  const Real* below = input.columns;
  for (Layer& layer : layers_) {
    Real* const argument_of = argument(layer, block);
    Real* const output_of = layer.output.data() + layer.at(block);
    multiply(layer, below, layer.has_norm() ? layer.normal.data() + layer.at(block) : argument_of);
    if (layer.has_norm()) kernels_.normalize(norm_block(layer, block), argument_of);
    if (layer.activated) {
      for_samples(layer.outputs, samples_, [&](std::int64_t begin, std::int64_t count) {
        kernels_.activate(activation_, argument_of + begin, output_of + begin, count);
      });
    }
    below = output_of;
  }
}

template <typename Real>
void BlockNet<Real>::multiply_by_slope(Layer& layer, std::int64_t block, Real* gradient) const {
  if (!layer.activated) return;
  for_samples(layer.outputs, samples_, [&](std::int64_t begin, std::int64_t count) {
    kernels_.multiply_by_slope(activation_, argument(layer, block) + begin, gradient + begin, count);
  });
}

template <typename Real>
void BlockNet<Real>::backward(const BlockInput<Real>& input, std::int64_t block, std::int64_t samples, Real* gradient,
                              ParameterGradients parameters, const OfInput& of_input, BackwardScratch<Real>& scratch) {
  samples_ = samples;
  const bool sums = parameters != ParameterGradients::kLeave;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    multiply_by_slope(layer, block, gradient);
    if (layer.has_norm()) {
      kernels_.normalize_back(norm_block(layer, block), gradient, sums ? layer.scale_sum.data() : nullptr,
                              sums ? layer.shift_sum.data() : nullptr);
    }
    if (sums) {
      kernels_.add_columns(gradient, layer.outputs, padded(samples_), layer.bias_sum.data());
      const BlockInput<Real> below =
          i == 0 ? input : BlockInput<Real>{.columns = layers_[i - 1].output.data() + layers_[i - 1].at(block)};
      add_to_weights(layer, below, gradient, scratch.transposed.data());
    }
    const OfInput to = i == 0 ? of_input : OfInput{scratch.of_hidden[i % 2].data(), 0, layer.inputs};
    if (to.numbers == nullptr) return;
    multiply_back(layer, gradient, to);
    gradient = to.numbers;
  }
}

// Adds the product of gradient and inputs over the samples to the sums of a layer. The product needs one of the two
// sample-major; which one follows from Layer::along.
template <typename Real>
void BlockNet<Real>::add_to_weights(Layer& layer, const BlockInput<Real>& input, const Real* gradient,
                                    Real* transposed) const {
  using Start = typename Product<Real>::Start;
  Real* const sums = weight_sums(layer);
  const Start start = layer.has_sum ? Start::kKeep : Start::kZero;
  layer.has_sum = true;
  if constexpr (std::is_same_v<Real, float>) {
    if (layer.rounded) return layer.rounded->add_to_weights(gradient, input.columns, padded(samples_), sums, start);
  }
  const bool along_inputs = layer.along == Along::kInputs;
  const std::int64_t width = along_inputs ? layer.inputs : layer.outputs;
  const Real* across = along_inputs ? input.rows : nullptr;
  if (across == nullptr) {
    kernels_.transpose(along_inputs ? input.columns : gradient, kBlock, width, samples_, transposed, row_stride(width));
    across = transposed;
  }
  kernels_.multiply({.rows = along_inputs ? layer.outputs : layer.inputs,
                     .columns = padded(width),
                     .depth = samples_,
                     .a = along_inputs ? gradient : input.columns,
                     .a_row = kBlock,
                     .a_depth = 1,
                     .b = across,
                     .b_stride = row_stride(width),
                     .c = sums,
                     .c_stride = padded(width),
                     .start = start});
}

// The .grad is looked up at each use, since user code may replace it between two passes.
template <typename Real>
Real* BlockNet<Real>::weight_sums(Layer& layer) {
  return layer.sums == SumsOfWeights::kApart ? layer.weight_sum.data() : gradient_memory<Real>(layer.weight);
}

template <typename Real>
std::int64_t BlockNet<Real>::count_sums(const Layer& layer) {
  return layer.along == Along::kInputs ? layer.outputs * padded(layer.inputs) : layer.inputs * padded(layer.outputs);
}

// A pass without rows has had no product that could overwrite what the sums were before it.
template <typename Real>
void BlockNet<Real>::finish(ParameterGradients parameters) {
  for (Layer& layer : layers_) {
    if (!layer.has_sum) std::fill_n(weight_sums(layer), count_sums(layer), Real{0});
    write(layer, parameters);
    write_lane_sums(layer.bias_sum, layer.bias, parameters);
    if (!layer.has_norm()) continue;
    write_lane_sums(layer.scale_sum, layer.scale, parameters);
    write_lane_sums(layer.shift_sum, layer.shift, parameters);
  }
}

// Brings the sums without their padding to the .grad of a weight, unless they are there.
template <typename Real>
void BlockNet<Real>::write(Layer& layer, ParameterGradients parameters) {
  Real* of_weight = gradient_memory<Real>(layer.weight);
  if (layer.sums == SumsOfWeights::kInGradient) {
    TANDEM_CHECK(parameters == ParameterGradients::kOverwrite, "sums in .grad cannot be added to it");
    return;
  }
  const bool along_inputs = layer.along == Along::kInputs;
  for (std::int64_t o = 0; o < layer.outputs; ++o, of_weight += layer.inputs) {
    const Real* sums = layer.weight_sum.data() + (along_inputs ? o * padded(layer.inputs) : o);
    write_or_add(sums, layer.inputs, along_inputs ? 1 : padded(layer.outputs), of_weight, parameters);
  }
}

template float* gradient_memory(const at::Tensor&);
template double* gradient_memory(const at::Tensor&);
template void write_lane_sums(const float*, std::int64_t, float*);
template void write_lane_sums(const double*, std::int64_t, double*);
template class BlockNet<float>;
template class BlockNet<double>;

}  // namespace tandem::rl
