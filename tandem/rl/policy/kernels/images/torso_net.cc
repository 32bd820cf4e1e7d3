#include "tandem/rl/policy/kernels/images/torso_net.h"

#include <algorithm>

// The steps of a torso go from value to value, a sample at a time. A convolution and the ReLU behind it are one step
// here, whose value is the ReLU's. Gradients of values go the other way; a value that several steps take gets the sum.
namespace tandem::rl {
namespace {

// The side of a pooling's window, how far it moves, and how far it reaches out of the image.
constexpr std::int64_t kPoolSide = 3, kPoolStride = 2, kPoolPadding = 1;

}  // namespace

template <typename Real>
TorsoNet<Real>::TorsoNet(const ImageTorso& torso, InstructionSet set, const Options& options)
    : torso_(torso),
      kernels_(convolution_kernels<Real>(set)),
      block_kernels_(block_kernels<Real>(set)),
      images_(static_cast<std::size_t>(options.samples)) {
  using Convolution = TorsoConvolution<Real>;
  for (std::size_t i = 0; i < torso.shapes().size(); ++i) add_value(i, options);
  for (std::size_t i = 0; i < torso.steps().size(); ++i) {
    const TorsoStep& step = torso.steps()[i];
    Layer& layer = layers_.emplace_back();
    if (step.kind != Kind::kConvolve) continue;
    const bool rectifies = is_rectified(i);
    layer.out = i + (rectifies ? 2 : 1);
    const typename Convolution::Options its{
        .scale = step.in == 0 ? static_cast<Real>(1 / torso.largest()) : Real{1},
        .rectify = rectifies ? Convolution::Rectify::kYes : Convolution::Rectify::kNo,
        .passes = options.passes,
        .compute = options.compute};
    layer.convolution = std::make_unique<Convolution>(step, values_[step.in], values_[layer.out], set, its);
  }
}

template <typename Real>
bool TorsoNet<Real>::is_rectified(std::size_t step) const {
  const std::vector<TorsoStep>& steps = torso_.steps();
  const auto takes = [value = step + 1](const TorsoStep& other) {
    return other.in == value || (other.kind == Kind::kAdd && other.also == value);
  };
  return step + 1 < steps.size() && steps[step + 1].kind == Kind::kRectify && steps[step + 1].in == step + 1 &&
         std::ranges::count_if(steps, takes) == 1;
}

// A border is as wide as the convolutions that take the value pad. A value between a convolution and its ReLU is not
// there, and the image has no gradient.
template <typename Real>
void TorsoNet<Real>::add_value(std::size_t i, const Options& options) {
  std::int64_t border = 0;
  for (const TorsoStep& step : torso_.steps()) {
    if (step.kind == Kind::kConvolve && step.in == i) border = std::max(border, step.padding);
  }
  Value& value = values_.emplace_back(torso_.shapes()[i], border, i == 0);
  const bool is_within = i > 0 && torso_.steps()[i - 1].kind == Kind::kConvolve && is_rectified(i - 1);
  if (i == 0) {
    value.keep(1, Passes::kForward);
  } else if (!is_within) {
    value.keep(options.samples, options.passes);
  }
}

template <typename Real>
void TorsoNet<Real>::take_parameters() {
  for (Layer& layer : layers_) {
    if (layer.convolution) layer.convolution->take_parameters();
  }
}

template <typename Real>
void TorsoNet<Real>::begin() {
  for (Layer& layer : layers_) {
    if (layer.convolution) layer.convolution->begin();
  }
}

template <typename Real>
void TorsoNet<Real>::finish() const {
  for (const Layer& layer : layers_) {
    if (layer.convolution) layer.convolution->finish();
  }
}

template <typename Real>
template <typename Visit>
void TorsoNet<Real>::for_lines(const Value& from, const Value& to, const Visit& visit) {
  for (std::int64_t y = 0; y < to.shape.height; ++y)
    visit(from.origin + y * from.line, to.origin + y * to.line, to.shape.width * to.pixel);
}

// A window is cut where it reaches out of the image.
template <typename Real>
template <typename Visit>
void TorsoNet<Real>::for_windows(Value& in, const Value& out, std::int64_t sample, const Visit& visit) {
  const auto first = [](std::int64_t i) { return std::max<std::int64_t>(kPoolStride * i - kPoolPadding, 0); };
  const auto end = [](std::int64_t i, std::int64_t side) {
    return std::min(kPoolStride * i - kPoolPadding + kPoolSide, side);
  };
  for (std::int64_t y = 0; y < out.shape.height; ++y) {
    for (std::int64_t x = 0; x < out.shape.width; ++x) {
      const std::int64_t from = in.origin + first(y) * in.line + first(x) * in.pixel;
      const PoolWindow<Real> window{.from = in.at(sample) + from,
                                    .rows = end(y, in.shape.height) - first(y),
                                    .columns = end(x, in.shape.width) - first(x),
                                    .line = in.line,
                                    .channels = in.pixel};
      visit(window, from, out.origin + y * out.line + x * out.pixel);
    }
  }
}

// From [channels, height, width] to [height, channels, width].
template <typename Real>
void TorsoNet<Real>::widen(const std::uint8_t* image) {
  Value& value = values_[0];
  const auto& [channels, height, width] = value.shape;
  const std::int64_t apart = width + 2 * value.border;
  Real* const to = value.at(0) + value.origin;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t c = 0; c < channels; ++c)
      kernels_.widen(image + (c * height + y) * width, width, to + y * value.line + c * apart);
  }
}

template <typename Real>
void TorsoNet<Real>::go_forward(const TorsoStep& step, Value& out, std::int64_t sample) {
  Value &in = values_[step.in], &also = values_[step.also];
  Real* const to = out.at(sample);
  switch (step.kind) {
    case Kind::kConvolve:  // has its own loops
      break;
    case Kind::kRectify:
      for_lines(in, out, [&](std::int64_t f, std::int64_t t, std::int64_t count) {
        block_kernels_.activate(Activation::kRelu, in.at(sample) + f, to + t, count);
      });
      break;
    case Kind::kPool:
      for_windows(in, out, sample, [&](const PoolWindow<Real>& window, std::int64_t, std::int64_t t) {
        kernels_.take_largest(window, to + t);
      });
      break;
    case Kind::kAdd:
      for_lines(in, out, [&](std::int64_t f, std::int64_t t, std::int64_t count) {
        std::copy_n(in.at(sample) + f, count, to + t);
      });
      for_lines(also, out, [&](std::int64_t f, std::int64_t t, std::int64_t count) {
        kernels_.add(also.at(sample) + f, count, to + t);
      });
      break;
  }
}

// The features are in torch's order, [channels, height, width].
template <typename Real>
void TorsoNet<Real>::forward(std::int64_t sample, const std::uint8_t* image, Real* row) {
  images_[static_cast<std::size_t>(sample)] = image;
  widen(image);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const TorsoStep& step = torso_.steps()[i];
    if (layers_[i].convolution) {
      layers_[i].convolution->forward(values_[step.in], values_[layers_[i].out], sample);
      i = layers_[i].out - 1;  // past its ReLU
    } else {
      go_forward(step, values_[i + 1], sample);
    }
  }
  Value& last = values_.back();
  const auto& [channels, height, width] = last.shape;
  for (std::int64_t y = 0; y < height; ++y) {
    const Real* from = last.at(sample) + last.origin + y * last.line;
    for (std::int64_t x = 0; x < width; ++x, from += last.pixel) {
      for (std::int64_t c = 0; c < channels; ++c) row[(c * height + y) * width + x] = from[c];
    }
  }
}

// From the gradient of a step's value to those of the values that it took.
template <typename Real>
void TorsoNet<Real>::go_back(const TorsoStep& step, Value& out, std::int64_t sample) {
  Value& in = values_[step.in];
  const Real* const gradient = out.gradient.data();
  const auto add = [&](Value& value) {
    Real* const to = value.add_to_gradient();
    for_lines(out, value,
              [&](std::int64_t f, std::int64_t t, std::int64_t count) { kernels_.add(gradient + f, count, to + t); });
  };
  switch (step.kind) {
    case Kind::kConvolve:  // has its own loops
      break;
    case Kind::kRectify: {
      Real* const to = in.add_to_gradient();
      for_lines(out, in, [&](std::int64_t f, std::int64_t t, std::int64_t count) {
        kernels_.add_slopes(out.at(sample) + f, gradient + f, count, to + t);
      });
      break;
    }
    case Kind::kPool: {
      Real* const to = in.add_to_gradient();
      for_windows(in, out, sample, [&](const PoolWindow<Real>& window, std::int64_t f, std::int64_t t) {
        kernels_.give_to_largest(window, out.at(sample) + t, gradient + t, to + f);
      });
      break;
    }
    case Kind::kAdd:
      add(in);
      add(values_[step.also]);
      break;
  }
}

// Pixels are widened once more, as numbers of the sample that goes back now.
template <typename Real>
void TorsoNet<Real>::backward(std::int64_t sample, const Real* of_row) {
  for (Value& value : values_) value.has_gradient = false;
  widen(images_[static_cast<std::size_t>(sample)]);
  Value& last = values_.back();
  const auto& [channels, height, width] = last.shape;
  for (std::int64_t y = 0; y < height; ++y) {
    Real* to = last.add_to_gradient() + last.origin + y * last.line;
    for (std::int64_t x = 0; x < width; ++x, to += last.pixel) {
      for (std::int64_t c = 0; c < channels; ++c) to[c] = of_row[(c * height + y) * width + x];
    }
  }
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (i > 0 && layers_[i - 1].out == i + 1) continue;  // the ReLU of the convolution before it
    const TorsoStep& step = torso_.steps()[i];
    if (layers_[i].convolution) {
      layers_[i].convolution->backward(values_[step.in], values_[layers_[i].out], sample);
    } else {
      go_back(step, values_[i + 1], sample);
    }
  }
}

template class TorsoNet<float>;
template class TorsoNet<double>;

}  // namespace tandem::rl
