#include "tandem/rl/policy/kernels/sequences/row_layer.h"

#include <algorithm>

#include "tandem/rl/policy/kernels/block_net.h"

namespace tandem::rl {

template <typename Real>
RowLayer<Real>::RowLayer(const at::Tensor& weight, const at::Tensor& bias, std::int64_t groups,
                         const BlockKernels<Real>& kernels)
    : kernels_(kernels),
      weight_(weight),
      bias_(bias),
      groups_(groups),
      group_(weight.size(0) / groups),
      inputs_(weight.size(1)),
      depth_(groups == 1 ? group_ : width()),
      along_(depth_ * padded(inputs_) <= inputs_ * width() ? Along::kInputs : Along::kOutputs),
      by_output_(width() * padded(inputs_)),
      by_input_(padded(inputs_) * width()),
      biases_(width()),
      weight_sum_(width() * padded(inputs_)),
      bias_sum_(width()) {}

// Padding stays as it was made, zero.
template <typename Real>
void RowLayer<Real>::begin() {
  const Real* weight = weight_.template const_data_ptr<Real>();
  const Real* bias = bias_.template const_data_ptr<Real>();
  for (std::int64_t o = 0; o < groups_ * group_; ++o) {
    std::copy_n(weight + o * inputs_, inputs_, by_output_.data() + place_of(o) * padded(inputs_));
    biases_.data()[place_of(o)] = bias[o];
  }
  kernels_.transpose(by_output_.data(), padded(inputs_), width(), inputs_, by_input_.data(), width());
  std::fill_n(weight_sum_.data(), width() * padded(inputs_), Real{0});
  std::fill_n(bias_sum_.data(), width(), Real{0});
}

template <typename Real>
void RowLayer<Real>::forward(Rows<const Real> x, std::int64_t rows, Rows<Real> y) const {
  kernels_.multiply({.rows = rows,
                     .columns = width(),
                     .depth = inputs_,
                     .a = x.data,
                     .a_row = x.stride,
                     .a_depth = 1,
                     .b = by_input_.data(),
                     .b_stride = width(),
                     .c = y.data,
                     .c_stride = y.stride,
                     .start = Start::kColumnBias,
                     .bias = biases_.data()});
}

template <typename Real>
void RowLayer<Real>::backward(Rows<const Real> of_y, std::int64_t rows, Rows<Real> of_x, Start start) const {
  kernels_.multiply({.rows = rows,
                     .columns = padded(inputs_),
                     .depth = depth_,
                     .a = of_y.data,
                     .a_row = of_y.stride,
                     .a_depth = 1,
                     .b = by_output_.data(),
                     .b_stride = padded(inputs_),
                     .c = of_x.data,
                     .c_stride = of_x.stride,
                     .start = start});
}

// The sum of rows is their product with a row of ones.
template <typename Real>
void RowLayer<Real>::add(Rows<const Real> x, Rows<const Real> of_y, std::int64_t rows) {
  static constexpr Real kOne = 1;
  const bool along_inputs = along_ == Along::kInputs;
  const Rows<const Real>& across = along_inputs ? of_y : x;
  const Rows<const Real>& along = along_inputs ? x : of_y;
  const std::int64_t columns = along_inputs ? padded(inputs_) : width();
  kernels_.multiply({.rows = along_inputs ? depth_ : inputs_,
                     .columns = columns,
                     .depth = rows,
                     .a = across.data,
                     .a_row = 1,
                     .a_depth = across.stride,
                     .b = along.data,
                     .b_stride = along.stride,
                     .c = weight_sum_.data(),
                     .c_stride = columns,
                     .start = Start::kKeep});
  kernels_.multiply({.rows = 1,
                     .columns = width(),
                     .depth = rows,
                     .a = &kOne,
                     .a_row = 0,
                     .a_depth = 0,
                     .b = of_y.data,
                     .b_stride = of_y.stride,
                     .c = bias_sum_.data(),
                     .c_stride = width(),
                     .start = Start::kKeep});
}

template <typename Real>
void RowLayer<Real>::finish() const {
  Real* of_weight = gradient_memory<Real>(weight_);
  Real* of_bias = gradient_memory<Real>(bias_);
  for (std::int64_t o = 0; o < groups_ * group_; ++o, of_weight += inputs_) {
    const std::int64_t place = place_of(o);
    of_bias[o] = bias_sum_.data()[place];
    if (along_ == Along::kInputs) {
      std::copy_n(weight_sum_.data() + place * padded(inputs_), inputs_, of_weight);
    } else {
      for (std::int64_t i = 0; i < inputs_; ++i) of_weight[i] = weight_sum_.data()[i * width() + place];
    }
  }
}

template class RowLayer<float>;
template class RowLayer<double>;

}  // namespace tandem::rl
