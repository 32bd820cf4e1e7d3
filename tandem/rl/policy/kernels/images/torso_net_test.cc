#include "tandem/rl/policy/kernels/images/torso_net.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/kernels/testing/computes_here.h"

namespace tandem::rl {
namespace {

// A torso of a shape that has no round numbers, with pixels of 0 to 255 or of 0 to 3.
struct TorsoCase {
  std::string name;
  Torso kind;
  std::vector<std::int64_t> image;
  TorsoOptions options = {};
  bool has_bounds = false;
};
std::vector<TorsoCase> torso_cases() {
  return {{"nature", Torso::kNatureCnn, {3, 37, 46}},
          {"nature of one place", Torso::kNatureCnn, {1, 36, 36}},
          {"residual", Torso::kResidual, {2, 9, 12}, {.channels = {5, 17}, .blocks = 2}},
          {"residual with bounds", Torso::kResidual, {1, 12, 12}, {.channels = {16, 32, 32}, .blocks = 1}, true},
          {"no blocks", Torso::kResidual, {4, 8, 7}, {.channels = {33}, .blocks = 0}}};
}

constexpr std::int64_t kTorsoRows = 5;

// The torso, rows of pixels, the derivatives with respect to its features, and its features and gradients by autograd
// in float64.
class TorsoProblem {
 public:
  explicit TorsoProblem(const TorsoCase& with) {
    Leaf leaf{.name = "image", .type = ElementType::kUInt8, .shape = with.image};
    const auto pixels = static_cast<std::size_t>(with.image[0] * with.image[1] * with.image[2]);
    if (with.has_bounds) {
      leaf.low = std::vector<double>(pixels, 0);
      leaf.high = std::vector<double>(pixels, 3);
    }
    at::Generator random = model::seeded(3);
    torso = make_torso(with.kind, with.options, leaf, random);
    std::vector<std::int64_t> shape{kTorsoRows};
    shape.insert(shape.end(), with.image.begin(), with.image.end());
    pixels_ = at::randint(0, with.has_bounds ? 4 : 256, shape, random, at::kByte);
    of_features = at::randn({kTorsoRows, torso->features()}, random, at::kDouble);
    torso->to(at::kDouble);
    for (const at::Tensor& parameter : torso->parameters()) {  // biases have their part, too
      const torch::NoGradGuard no_grad;
      parameter.add_(at::randn(parameter.sizes(), random, at::kDouble), 0.02);
    }
    const at::Tensor by_autograd = torso->convolve(pixels_.to(at::kDouble) / torso->largest()).flatten(1);
    gradients = torch::autograd::grad({by_autograd}, torso->parameters(), {of_features});
    features = by_autograd.detach();
  }

  // Features by the kernels, with the gradients where .grad is; the second time round, so that nothing of the first
  // counts.
  template <typename Real>
  at::Tensor run(InstructionSet set, Compute compute = Compute::kFloat32) {
    constexpr at::ScalarType dtype = c10::CppTypeToScalarType<Real>::value;
    torso->to(dtype);
    for (at::Tensor& parameter : torso->parameters()) parameter.mutable_grad() = at::full_like(parameter, NAN);
    TorsoNet<Real> net(*torso, set, {.samples = kTorsoRows, .compute = compute});
    const at::Tensor rows = at::empty({kTorsoRows, torso->features()}, dtype), of_rows = of_features.to(dtype);
    for (int time = 0; time < 2; ++time) {
      net.begin();
      for (std::int64_t i = 0; i < kTorsoRows; ++i) net.forward(i, pixels(i), rows[i].mutable_data_ptr<Real>());
      for (std::int64_t i = 0; i < kTorsoRows; ++i) net.backward(i, of_rows[i].const_data_ptr<Real>());
      net.finish();
    }
    return rows;
  }

  const std::uint8_t* pixels(std::int64_t row) const { return pixels_[row].const_data_ptr<std::uint8_t>(); }

  // The largest difference of features and gradients, relative to the largest number of each.
  double difference(const at::Tensor& rows) const {
    const auto apart = [](const at::Tensor& got, const at::Tensor& wanted) {
      return ((got.to(at::kDouble) - wanted).abs().max() / wanted.abs().max()).item<double>();
    };
    double most = apart(rows, features);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      most = std::fmax(most, apart(torso->parameters()[i].grad(), gradients[i]));
    return most;
  }

  std::shared_ptr<ImageTorso> torso;
  at::Tensor features, of_features;
  std::vector<at::Tensor> gradients;

 private:
  at::Tensor pixels_;
};

TEST(TorsoNetTest, FeaturesAndGradientsAreThoseOfAutograd) {
  for (const TorsoCase& each : torso_cases()) {
    TorsoProblem problem(each);
    EXPECT_LT(problem.difference(problem.run<double>(InstructionSet::kPortable)), 1e-12) << each.name;
  }
}

TEST(TorsoNetTest, EveryInstructionSetIsWithinTheRoundingOfFloat32) {
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > detect_instruction_set()) continue;
    for (const TorsoCase& each : torso_cases()) {
      TorsoProblem problem(each);
      EXPECT_LT(problem.difference(problem.run<float>(set)), 1e-5) << each.name << ", " << name_of(set);
    }
  }
}

at::Tensor rounded_to_bfloat16(const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kDouble); }

// One convolution of one sample, [channels, height, width], in and out of the kernels' layout.
class OneConvolution {
 public:
  OneConvolution(bool is_image, std::int64_t channels, std::int64_t side, std::int64_t out, std::int64_t kernel,
                 std::int64_t stride, std::int64_t padding, Compute compute)
      : step_{.kind = TorsoStep::Kind::kConvolve,
              .in = is_image ? 0U : 1U,
              .convolution = torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, out, kernel)),
              .stride = stride,
              .padding = padding},
        in_({channels, side, side}, padding, is_image),
        out_({out, (side + 2 * padding - kernel) / stride + 1, (side + 2 * padding - kernel) / stride + 1}, 0, false) {
    in_.keep(1, Passes::kForwardAndBackward);
    out_.keep(1, Passes::kForwardAndBackward);
    for (at::Tensor& parameter : step_.convolution->parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
    convolution_ = std::make_unique<TorsoConvolution<float>>(step_, in_, out_, InstructionSet::kAvx512,
                                                             TorsoConvolution<float>::Options{.compute = compute});
  }

  // The largest relative difference to the products of rounded factors: results, gradients of weights and of inputs.
  double difference() {
    const at::Tensor x = step_.in == 0 ? at::randint(256, sizes(in_)).to(at::kFloat) : at::randn(sizes(in_));
    const at::Tensor of_y = at::randn(sizes(out_));
    const at::Tensor weight = rounded_to_bfloat16(step_.convolution->weight).detach();
    const std::vector<std::int64_t> stride{step_.stride, step_.stride}, padding{step_.padding, step_.padding};
    move(x, in_, in_.numbers.data(), Way::kIn);
    convolution_->begin();
    convolution_->forward(in_, out_, 0);
    move(of_y, out_, out_.add_to_gradient(), Way::kIn);
    convolution_->backward(in_, out_, 0);
    convolution_->finish();
    const at::Tensor rounded_x = rounded_to_bfloat16(x).unsqueeze(0);
    const auto [of_x, of_weight, of_bias] =
        at::convolution_backward(rounded_to_bfloat16(of_y).unsqueeze(0), rounded_x, weight, std::nullopt, stride,
                                 padding, {1, 1}, false, {0, 0}, 1, {true, true, false});
    const at::Tensor y = at::empty(sizes(out_)), got_of_x = at::empty(sizes(in_));
    move(y, out_, out_.numbers.data(), Way::kOut);
    const auto apart = [](const at::Tensor& got, const at::Tensor& wanted) {
      return ((got.to(at::kDouble) - wanted).abs().max() / wanted.abs().max()).item<double>();
    };
    const at::Tensor bias = step_.convolution->bias.detach().to(at::kDouble);
    double most = apart(y, at::conv2d(rounded_x, weight, bias, stride, padding)[0]);
    most = std::fmax(most, apart(step_.convolution->weight.grad(), of_weight));
    if (step_.in == 0) return most;
    move(got_of_x, in_, in_.gradient.data(), Way::kOut);
    return std::fmax(most, apart(got_of_x, of_x[0]));
  }

 private:
  enum class Way { kIn, kOut };
  static std::vector<std::int64_t> sizes(const TorsoValue<float>& value) {
    return {value.shape.channels, value.shape.height, value.shape.width};
  }
  static void move(const at::Tensor& tensor, const TorsoValue<float>& value, float* array, Way way) {
    at::TensorAccessor<float, 3> numbers = tensor.accessor<float, 3>();
    const bool is_image = value.pixel == 1;
    for (std::int64_t c = 0; c < tensor.size(0); ++c) {
      for (std::int64_t y = 0; y < tensor.size(1); ++y) {
        for (std::int64_t x = 0; x < tensor.size(2); ++x) {
          const std::int64_t within = is_image ? c * (value.shape.width + 2 * value.border) + x : x * value.pixel + c;
          float& number = array[value.origin + y * value.line + within];
          if (way == Way::kIn) {
            number = numbers[c][y][x];
          } else {
            numbers[c][y][x] = number;
          }
        }
      }
    }
  }

  TorsoStep step_;
  TorsoValue<float> in_, out_;
  std::unique_ptr<TorsoConvolution<float>> convolution_;
};

// Lines in odd and even number, a border, channels that are no multiple of a panel.
TEST(TorsoNetTest, ProductsOfBfloat16AreThoseOfRoundedFactors) {
  for (const Compute compute : testing::computes_here()) {
    EXPECT_LT(OneConvolution(true, 4, 84, 32, 8, 4, 0, compute).difference(), 1e-5);
    EXPECT_LT(OneConvolution(true, 3, 36, 40, 4, 2, 0, compute).difference(), 1e-5);
    EXPECT_LT(OneConvolution(false, 32, 20, 64, 4, 2, 0, compute).difference(), 1e-5);
    EXPECT_LT(OneConvolution(false, 33, 8, 48, 3, 1, 1, compute).difference(), 1e-5);
    EXPECT_GT(OneConvolution(false, 32, 9, 64, 3, 1, 0, Compute::kFloat32).difference(), 1e-4) << "it rounds";
  }
}

// Gradients differ by more than features, where a ReLU or a pooling decides otherwise.
TEST(TorsoNetTest, ATorsoOfBfloat16IsNearThatOfFloat32) {
  for (const Compute compute : testing::computes_here()) {
    TorsoProblem problem(torso_cases().front());
    const at::Tensor rows = problem.run<float>(InstructionSet::kAvx512, compute);
    const auto apart = [](const at::Tensor& got, const at::Tensor& wanted) {
      return ((got.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
    };
    EXPECT_LT(apart(rows, problem.features), 0.02);
    for (std::size_t i = 0; i < problem.gradients.size(); ++i)
      EXPECT_LT(apart(problem.torso->parameters()[i].grad(), problem.gradients[i]), 0.1) << i;
  }
}

// Acting takes one sample at a time and keeps nothing for gradients.
TEST(TorsoNetTest, ARowHasTheSameBitsAloneAndAmongOthers) {
  TorsoProblem problem(torso_cases().front());
  const at::Tensor rows = problem.run<float>(detect_instruction_set());
  TorsoNet<float> net(*problem.torso, detect_instruction_set(), {.passes = Passes::kForward});
  net.take_parameters();
  const at::Tensor row = at::empty({problem.torso->features()});
  for (std::int64_t i = 0; i < kTorsoRows; ++i) {
    net.forward(0, problem.pixels(i), row.mutable_data_ptr<float>());
    EXPECT_TRUE(row.equal(rows[i])) << i;
  }
}

}  // namespace
}  // namespace tandem::rl
