#include "tandem/rl/policy/kernels/mlp_gradient.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"

// The plan of a block, feature-major as mlp_kernels.h says:
//   forward   each layer is one product W x + b over the samples, then the activation;
//   backward  from the heads down: the derivatives times the activation's slope; their sums over samples for the bias;
//             their product with the layer's inputs for the weights; their product with W for the layer below.
// Gradients of weights are summed over all blocks in memory whose rows are padded, and written to .grad by finish().
namespace tandem::rl {
namespace {

// Apart from a multiple of the cache's page, so that neighbouring samples do not compete for the same lines.
constexpr std::int64_t row_stride(std::int64_t features) { return padded(features) + kPanel; }

constexpr bool is_kept_before(Activation activation) {
  return activation == Activation::kSilu || activation == Activation::kGelu;
}

// Calls work(begin, count) for the numbers of [rows, kBlock] that belong to samples: in one piece where all do.
template <typename Work>
void for_samples(std::int64_t rows, std::int64_t samples, const Work& work) {
  if (padded(samples) == kBlock) return work(0, rows * kBlock);
  for (std::int64_t row = 0; row < rows; ++row) work(row * kBlock, padded(samples));
}

// The largest number of inputs or outputs of any layer, padded: the size of scratch memory.
std::int64_t widest(const MlpPolicy& policy) {
  std::int64_t most = policy.features().size();
  for (const Mlp* net : {policy.trunk(), &policy.actor(), &policy.critic()}) {
    if (net != nullptr) most = std::max(most, std::ranges::max(net->options().sizes));
  }
  return padded(most);
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

// Adds the lanes as a tree, so that the order of additions does not depend on the width of vectors.
template <typename Real>
void write_lane_sums(const Real* lanes, std::int64_t rows, Real* sums) {
  for (std::int64_t row = 0; row < rows; ++row) {
    Real sum[kPanel];
    std::copy_n(lanes + row * kPanel, kPanel, sum);
    for (std::int64_t width = kPanel / 2; width > 0; width /= 2) {
      for (std::int64_t lane = 0; lane < width; ++lane) sum[lane] += sum[lane + width];
    }
    sums[row] = sum[0];
  }
}

// A dense layer, and the sums over blocks of its gradients.
template <typename Real>
struct MlpGradient<Real>::Layer {
  // Vectors of the weights' gradient go along its inputs, or along its outputs: whichever takes fewer operations.
  enum class Along { kInputs, kOutputs };

  Layer(const torch::nn::Linear& linear, bool activated_, Activation activation, bool is_first)
      : weight(linear->weight),
        bias(linear->bias),
        inputs(weight.size(1)),
        outputs(weight.size(0)),
        activated(activated_),
        along(choose(inputs, outputs, is_first)),
        output(padded(outputs) * kBlock),
        before(activated && is_kept_before(activation) ? padded(outputs) * kBlock : 0),
        weight_sum(along == Along::kInputs ? outputs * padded(inputs) : inputs * padded(outputs)),
        bias_sum(outputs * kPanel) {}

  // In multiply-adds of vectors a sample; a transposition takes about three a panel, and a single panel's sums wait for
  // each other. The first layer's inputs come as rows.
  static Along choose(std::int64_t inputs, std::int64_t outputs, bool is_first) {
    const auto cost = [](std::int64_t rows, std::int64_t columns) {
      return rows * padded(columns) / kPanel * (columns <= kPanel ? 2 : 1);
    };
    const std::int64_t by_inputs = cost(outputs, inputs) + (is_first ? 0 : 3 * padded(inputs) / kPanel);
    return by_inputs <= cost(inputs, outputs) + 3 * padded(outputs) / kPanel ? Along::kInputs : Along::kOutputs;
  }
  // The numbers that the activation's slope is computed from: its argument, or its result.
  [[nodiscard]] Real* kept(Activation activation) {
    return is_kept_before(activation) && activated ? before.data() : output.data();
  }

  at::Tensor weight, bias;
  std::int64_t inputs, outputs;
  bool activated;
  Along along;
  const Real* input = nullptr;    // [inputs, kBlock]
  AlignedArray<Real> output;      // [outputs, kBlock]
  AlignedArray<Real> before;      // the activation, where its slope needs that
  AlignedArray<Real> weight_sum;  // [outputs, inputs] or [inputs, outputs], rows padded
  AlignedArray<Real> bias_sum;    // [outputs, kPanel]: sums over every kPanel-th sample
};

template <typename Real>
MlpGradient<Real>::MlpGradient(const MlpPolicy& policy, InstructionSet set)
    : kernels_(block_kernels<Real>(set)),
      activation_(policy.options().activation),
      features_(policy.features().size()),
      sample_stride_(row_stride(features_)),
      samples_(kBlock * sample_stride_),
      input_(padded(features_) * kBlock),
      of_hidden_{AlignedArray<Real>(widest(policy) * kBlock), AlignedArray<Real>(widest(policy) * kBlock)},
      of_trunk_(policy.trunk() != nullptr ? widest(policy) * kBlock : 0),
      transposed_(kBlock * row_stride(widest(policy))) {
  const Real* input = input_.data();
  if (policy.trunk() != nullptr && !policy.trunk()->layers().empty()) {
    trunk_ = make_net(*policy.trunk(), input);
    input = trunk_.back().output.data();
  }
  actor_ = make_net(policy.actor(), input);
  critic_ = make_net(policy.critic(), input);
}

template <typename Real>
MlpGradient<Real>::~MlpGradient() = default;

// Layers point to the outputs of the layer below, which lie on the heap and stay when the vector of layers grows.
template <typename Real>
typename MlpGradient<Real>::Net MlpGradient<Real>::make_net(const Mlp& mlp, const Real* input) const {
  Net net;
  for (std::size_t i = 0; i < mlp.layers().size(); ++i) {
    Layer& layer = net.emplace_back(mlp.layers()[i], mlp.is_activated(i), activation_, input == input_.data());
    layer.input = input;
    input = layer.output.data();
  }
  return net;
}

template <typename Real>
Real* MlpGradient<Real>::head() {
  return actor_.back().output.data();
}

template <typename Real>
Real* MlpGradient<Real>::value() {
  return critic_.back().output.data();
}

// Sets the sums of gradients to zero, padding included.
template <typename Real>
void MlpGradient<Real>::begin() {
  for (Net* net : {&trunk_, &actor_, &critic_}) {
    for (Layer& layer : *net) {
      const std::int64_t rows = layer.along == Layer::Along::kInputs ? layer.outputs : layer.inputs;
      const std::int64_t columns = padded(layer.along == Layer::Along::kInputs ? layer.inputs : layer.outputs);
      std::fill_n(layer.weight_sum.data(), rows * columns, Real{0});
      std::fill_n(layer.bias_sum.data(), layer.outputs * kPanel, Real{0});
    }
  }
}

template <typename Real>
void MlpGradient<Real>::forward(std::int64_t samples) {
  TANDEM_CHECK(samples > 0 && samples <= kBlock, samples, " samples of a block of ", kBlock);
  samples_now_ = samples;
  kernels_.transpose(samples_.data(), sample_stride_, samples, features_, input_.data(), kBlock);
  for (Net* net : {&trunk_, &actor_, &critic_}) forward(*net);
}

template <typename Real>
void MlpGradient<Real>::forward(Net& net) {
  for (Layer& layer : net) {
    Real* before = layer.kept(activation_);
    kernels_.multiply({.rows = layer.outputs,
                       .columns = padded(samples_now_),
                       .depth = layer.inputs,
                       .a = layer.weight.template const_data_ptr<Real>(),
                       .a_row = layer.inputs,
                       .a_depth = 1,
                       .b = layer.input,
                       .b_stride = kBlock,
                       .c = before,
                       .c_stride = kBlock,
                       .start = Product<Real>::Start::kBias,
                       .bias = layer.bias.template const_data_ptr<Real>()});
    activate(layer);
  }
}

template <typename Real>
void MlpGradient<Real>::activate(Layer& layer) {
  if (!layer.activated) return;
  for_samples(layer.outputs, samples_now_, [&](std::int64_t begin, std::int64_t count) {
    kernels_.activate(activation_, layer.kept(activation_) + begin, layer.output.data() + begin, count);
  });
}

template <typename Real>
void MlpGradient<Real>::multiply_by_slope(Layer& layer, Real* gradient) {
  if (!layer.activated) return;
  for_samples(layer.outputs, samples_now_, [&](std::int64_t begin, std::int64_t count) {
    kernels_.multiply_by_slope(activation_, layer.kept(activation_) + begin, gradient + begin, count);
  });
}

// Actor and critic both add to the trunk's derivatives: the actor writes them first, the critic adds its own.
template <typename Real>
void MlpGradient<Real>::backward() {
  using Start = typename Product<Real>::Start;
  Real* of_trunk = trunk_.empty() ? nullptr : of_trunk_.data();
  backward(actor_, of_trunk, Start::kZero);
  backward(critic_, of_trunk, Start::kKeep);
  if (!trunk_.empty()) backward(trunk_, nullptr, Start::kZero);
}

// Starts from the derivatives with respect to the net's outputs. They lie where the outputs lay; for the trunk they lie
// in of_trunk_. `start` says whether derivatives for the layer below the net are written or added to what is there.
template <typename Real>
void MlpGradient<Real>::backward(Net& net, Real* of_input, typename Product<Real>::Start start) {
  Real* gradient = &net == &trunk_ ? of_trunk_.data() : net.back().output.data();
  for (std::size_t i = net.size(); i-- > 0;) {
    Layer& layer = net[i];
    multiply_by_slope(layer, gradient);
    kernels_.add_columns(gradient, layer.outputs, padded(samples_now_), layer.bias_sum.data());
    add_to_weights(layer, gradient);
    Real* below = i > 0 ? of_hidden_[i % 2].data() : of_input;
    if (below == nullptr) return;
    kernels_.multiply({.rows = layer.inputs,
                       .columns = padded(samples_now_),
                       .depth = layer.outputs,
                       .a = layer.weight.template const_data_ptr<Real>(),
                       .a_row = 1,
                       .a_depth = layer.inputs,
                       .b = gradient,
                       .b_stride = kBlock,
                       .c = below,
                       .c_stride = kBlock,
                       .start = i > 0 ? Product<Real>::Start::kZero : start});
    gradient = below;
  }
}

// Adds the product of gradient and inputs over the samples to the sums of a layer. The product needs one of the two
// sample-major; which one follows from Layer::along. The first layer's inputs came as rows and need no transposition.
template <typename Real>
void MlpGradient<Real>::add_to_weights(Layer& layer, const Real* gradient) {
  const bool along_inputs = layer.along == Layer::Along::kInputs;
  const Real* rows = along_inputs ? gradient : layer.input;
  const Real* columns = along_inputs ? layer.input : gradient;
  const std::int64_t width = along_inputs ? layer.inputs : layer.outputs;
  const Real* across = samples_.data();
  std::int64_t stride = sample_stride_;
  if (columns != input_.data()) {
    across = transposed_.data();
    stride = row_stride(width);
    kernels_.transpose(columns, kBlock, width, samples_now_, transposed_.data(), stride);
  }
  kernels_.multiply({.rows = along_inputs ? layer.outputs : layer.inputs,
                     .columns = padded(width),
                     .depth = samples_now_,
                     .a = rows,
                     .a_row = kBlock,
                     .a_depth = 1,
                     .b = across,
                     .b_stride = stride,
                     .c = layer.weight_sum.data(),
                     .c_stride = padded(width),
                     .start = Product<Real>::Start::kKeep});
}

template <typename Real>
void MlpGradient<Real>::finish() {
  for (const Net* net : {&trunk_, &actor_, &critic_}) {
    for (const Layer& layer : *net) write(layer);
  }
}

// Copies the sums without their padding to the .grad of weight and bias.
template <typename Real>
void MlpGradient<Real>::write(const Layer& layer) {
  Real* of_weight = gradient_memory<Real>(layer.weight);
  const Real* sum = layer.weight_sum.data();
  if (layer.along == Layer::Along::kInputs) {
    for (std::int64_t o = 0; o < layer.outputs; ++o) {
      std::memcpy(of_weight + o * layer.inputs, sum + o * padded(layer.inputs),
                  static_cast<std::size_t>(layer.inputs) * sizeof(Real));
    }
  } else {
    for (std::int64_t i = 0; i < layer.inputs; ++i) {
      for (std::int64_t o = 0; o < layer.outputs; ++o)
        of_weight[o * layer.inputs + i] = sum[i * padded(layer.outputs) + o];
    }
  }
  write_lane_sums(layer.bias_sum.data(), layer.outputs, gradient_memory<Real>(layer.bias));
}

template float* gradient_memory(const at::Tensor&);
template double* gradient_memory(const at::Tensor&);
template void write_lane_sums(const float*, std::int64_t, float*);
template void write_lane_sums(const double*, std::int64_t, double*);
template class MlpGradient<float>;
template class MlpGradient<double>;

}  // namespace tandem::rl
