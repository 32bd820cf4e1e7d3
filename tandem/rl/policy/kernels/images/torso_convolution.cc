#include "tandem/rl/policy/kernels/images/torso_convolution.h"

#include <algorithm>
#include <type_traits>

#include "tandem/base/check.h"

// The products of a convolution, all of them PatchProducts:
//   forward        C = the results, a line of pixels each; A = the patches where they lie; B = the weights;
//   to weights     C = their gradient, a piece of the kernel each; A = the patches, transposed; B = the derivatives;
//   to inputs      for each place of the kernel, C = the derivatives of the pixels that the place sees, a line each;
//                  A = the derivatives of the results; B = the place's weights, transposed.
namespace tandem::rl {

template <typename Real>
TorsoValue<Real>::TorsoValue(const ImageShape& shape_of, std::int64_t border_of, bool is_image)
    : shape(shape_of),
      border(border_of),
      pixel(is_image ? 1 : padded(shape.channels)),
      line((shape.width + 2 * border) * (is_image ? shape.channels : pixel)),
      origin(border * (line + pixel)),
      // With slack for loops that pair numbers.
      size(2 * pairs_of((shape.height + 2 * border) * line + kPanel)) {}

template <typename Real>
void TorsoValue<Real>::keep(std::int64_t samples, Passes passes) {
  numbers = AlignedArray<Real>(samples * size);
  apart = samples > 1 ? size : 0;
  if (passes == Passes::kForwardAndBackward) gradient = AlignedArray<Real>(size);
}

template <typename Real>
Real* TorsoValue<Real>::add_to_gradient() {
  if (!has_gradient) std::fill_n(gradient.data(), size, Real{0});
  has_gradient = true;
  return gradient.data();
}

// The image's pieces are of one channel each.
template <typename Real>
TorsoConvolution<Real>::TorsoConvolution(const TorsoStep& step, const TorsoValue<Real>& in, const TorsoValue<Real>& out,
                                         InstructionSet set, const Options& options)
    : weight_(step.convolution->weight),
      bias_(step.convolution->bias),
      kernels_(convolution_kernels<Real>(set)),
      block_kernels_(block_kernels<Real>(set)),
      options_(options),
      of_image_(step.in == 0),
      kernel_(weight_.size(2)),
      stride_(step.stride),
      inputs_(in.pixel),
      outputs_(out.pixel),
      pieces_(of_image_ ? kernel_ * in.shape.channels : kernel_),
      piece_(of_image_ ? in.shape.width + 2 * in.border : in.line),
      run_(kernel_ * in.pixel),
      first_((in.border - step.padding) * (in.line + in.pixel)),
      packed_(pieces_ * run_ * outputs_),
      shift_(outputs_) {
  const bool goes_back = options.passes == Passes::kForwardAndBackward;
  if (rounds(options.compute)) {
    rounded_ = std::make_unique<Bfloat16Convolution>(
        options.compute, Bfloat16Convolution::Sizes{.in = in.size,
                                                    .out = out.size,
                                                    .pieces = pieces_,
                                                    .run = run_,
                                                    .places = goes_back && !of_image_ ? kernel_ * kernel_ : 0,
                                                    .inputs = inputs_,
                                                    .outputs = outputs_,
                                                    .lines = out.shape.height,
                                                    .line = out.shape.width,
                                                    .step = stride_ * inputs_});
  }
  if (!goes_back) return;
  weight_sum_ = AlignedArray<Real>(sums());
  bias_sum_ = AlignedArray<Real>(outputs_);
  if (!of_image_) transposed_ = AlignedArray<Real>(kernel_ * kernel_ * outputs_ * inputs_);
}

template <typename Real>
std::int64_t TorsoConvolution<Real>::sums() const {
  return rounded_ ? rounded_->sums() : pieces_ * run_ * outputs_;
}

// Pairs of pixels of an image, which has no channels side by side, need even addresses.
template <typename Real>
bool TorsoConvolution<Real>::rounds(Compute compute) const {
  if (compute == Compute::kFloat32) return false;
  TANDEM_CHECK((std::is_same_v<Real, float>), "float64 is not rounded");
  const std::int64_t outputs = weight_.size(0), inputs = weight_.numel() / outputs;
  const bool is_even = stride_ % 2 == 0 && kernel_ % 2 == 0 && piece_ % 2 == 0 && first_ % 2 == 0;
  return Bfloat16Layer::pays(inputs, outputs) && (!of_image_ || is_even);
}

// The image's patches are [kernel, channels, kernel], those of others [kernel, kernel, channels].
template <typename Real>
template <typename Visit>
void TorsoConvolution<Real>::for_weights(const Visit& visit) const {
  const std::int64_t outputs = weight_.size(0), inputs = weight_.size(1);
  std::int64_t i = 0;
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t c = 0; c < inputs; ++c) {
      for (std::int64_t y = 0; y < kernel_; ++y) {
        for (std::int64_t x = 0; x < kernel_; ++x) {
          const std::int64_t place = y * kernel_ + x;
          const std::int64_t k = of_image_ ? (y * inputs + c) * kernel_ + x : place * inputs_ + c;
          visit(k * outputs_ + o, (place * outputs_ + o) * inputs_ + c, i++);
        }
      }
    }
  }
}

template <typename Real>
void TorsoConvolution<Real>::take_parameters() {
  const Real* const weight = weight_.template const_data_ptr<Real>();
  Real *const packed = packed_.data(), *const transposed = transposed_.data();
  const bool goes_back = !of_image_ && options_.passes == Passes::kForwardAndBackward;
  for_weights([&](std::int64_t k, std::int64_t t, std::int64_t i) {
    packed[k] = weight[i] * options_.scale;
    if (goes_back) transposed[t] = weight[i];
  });
  std::copy_n(bias_.template const_data_ptr<Real>(), bias_.numel(), shift_.data());
  if constexpr (std::is_same_v<Real, float>) {
    if (rounded_) rounded_->take(packed, goes_back ? transposed : nullptr);
  }
}

template <typename Real>
void TorsoConvolution<Real>::begin() {
  take_parameters();
  std::fill_n(weight_sum_.data(), sums(), Real{0});
  std::fill_n(bias_sum_.data(), outputs_, Real{0});
}

template <typename Real>
void TorsoConvolution<Real>::forward(TorsoValue<Real>& in, TorsoValue<Real>& out, std::int64_t sample) {
  const bool rectifies = options_.rectify == Rectify::kYes;
  const Product product{.lines = out.shape.height,
                        .rows = out.shape.width,
                        .columns = outputs_,
                        .segments = pieces_,
                        .run = run_,
                        .a = in.at(sample) + first_,
                        .a_line = stride_ * in.line,
                        .a_row = stride_ * inputs_,
                        .a_segment = piece_,
                        .a_step = 1,
                        .b = packed_.data(),
                        .b_segment = run_ * outputs_,
                        .b_step = outputs_,
                        .c = out.at(sample) + out.origin,
                        .c_line = out.line,
                        .c_row = outputs_,
                        .start = Product::Start::kBias,
                        .bias = shift_.data(),
                        .finish = rectifies ? Product::Finish::kRectify : Product::Finish::kStore};
  if constexpr (std::is_same_v<Real, float>) {
    if (rounded_) return rounded_->forward(in.at(sample), product);
  }
  kernels_.multiply(product);
}

template <typename Real>
void TorsoConvolution<Real>::backward(TorsoValue<Real>& in, TorsoValue<Real>& out, std::int64_t sample) {
  if (options_.rectify == Rectify::kYes)
    block_kernels_.multiply_by_slope(Activation::kRelu, out.at(sample), out.gradient.data(), out.size);
  const Real* const gradient = out.gradient.data() + out.origin;
  for (std::int64_t y = 0; y < out.shape.height; ++y)
    kernels_.add_positions(gradient + y * out.line, out.shape.width, outputs_, bias_sum_.data());
  add_to_weights(in, out, sample);
  if (!of_image_) add_to_inputs(in, out);
}

template <typename Real>
void TorsoConvolution<Real>::add_to_weights(TorsoValue<Real>& in, TorsoValue<Real>& out, std::int64_t sample) {
  const Product product{.lines = pieces_,
                        .rows = run_,
                        .columns = outputs_,
                        .segments = out.shape.height,
                        .run = out.shape.width,
                        .a = in.at(sample) + first_,
                        .a_line = piece_,
                        .a_row = 1,
                        .a_segment = stride_ * in.line,
                        .a_step = stride_ * inputs_,
                        .b = out.gradient.data() + out.origin,
                        .b_segment = out.line,
                        .b_step = outputs_,
                        .c = weight_sum_.data(),
                        .c_line = run_ * outputs_,
                        .c_row = outputs_,
                        .start = Product::Start::kKeep};
  if constexpr (std::is_same_v<Real, float>) {
    if (rounded_) return rounded_->to_weights(in.at(sample), product);
  }
  kernels_.multiply(product);
}

template <typename Real>
void TorsoConvolution<Real>::add_to_inputs(TorsoValue<Real>& in, TorsoValue<Real>& out) {
  Real* const to = in.add_to_gradient() + first_;
  for (std::int64_t place = 0; place < kernel_ * kernel_; ++place) {
    const Product product{.lines = out.shape.height,
                          .rows = out.shape.width,
                          .columns = inputs_,
                          .segments = 1,
                          .run = out.shape.channels,
                          .a = out.gradient.data() + out.origin,
                          .a_line = out.line,
                          .a_row = outputs_,
                          .a_segment = 0,
                          .a_step = 1,
                          .b = transposed_.data() + place * outputs_ * inputs_,
                          .b_segment = 0,
                          .b_step = inputs_,
                          .c = to + place / kernel_ * in.line + place % kernel_ * inputs_,
                          .c_line = stride_ * in.line,
                          .c_row = stride_ * inputs_,
                          .start = Product::Start::kKeep};
    if constexpr (std::is_same_v<Real, float>) {
      if (rounded_) {
        rounded_->to_inputs(out.gradient.data(), place, product);
        continue;
      }
    }
    kernels_.multiply(product);
  }
}

template <typename Real>
void TorsoConvolution<Real>::finish() const {
  Real* const of_weight = gradient_memory<Real>(weight_);
  const Real* const sums = weight_sum_.data();
  for_weights([&](std::int64_t k, std::int64_t, std::int64_t i) {
    const std::int64_t at = rounded_ ? rounded_->sum_of(k / outputs_, k % outputs_) : k;
    of_weight[i] = sums[at] * options_.scale;
  });
  std::copy_n(bias_sum_.data(), bias_.numel(), gradient_memory<Real>(bias_));
}

template struct TorsoValue<float>;
template struct TorsoValue<double>;
template class TorsoConvolution<float>;
template class TorsoConvolution<double>;

}  // namespace tandem::rl
