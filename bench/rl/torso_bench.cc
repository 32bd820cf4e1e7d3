// Question: how many floating-point operations a second do two cores make of the layers of an image policy, forward and
// backward: our kernels, and LibTorch's convolutions in whichever layout is the fastest?
//
// The policy is that of the Nature paper for four pictures of 84x84, with 512 units behind it. The layers alone are
// measured, one after the other: no loss, no autograd, memory that is there. bench/suite/ppo_images.py calls the best
// of each the peak.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/rl/core_peak.h"
#include "bench/timing.h"
#include "tandem/rl/policy/kernels/images/torso_convolution.h"
#include "tandem/rl/policy/kernels/mlp_gradient.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::bench {
namespace {

constexpr int kCores = 2;
constexpr std::int64_t kRows = 128;  // a core's: half of a minibatch of 256
constexpr std::int64_t kUnits = 512, kFeatures = 3136;

struct Layer {
  std::string name;
  std::int64_t in, side, out, kernel, stride;

  [[nodiscard]] bool is_first() const { return in == 4; }  // of pictures, whose gradient nobody wants
  [[nodiscard]] std::int64_t out_side() const { return (side - kernel) / stride + 1; }
  [[nodiscard]] double multiply_adds() const {
    return static_cast<double>(in * kernel * kernel * out * out_side() * out_side());
  }
};
const std::array<Layer, 3> kLayers{Layer{"conv_0", 4, 84, 32, 8, 4}, Layer{"conv_1", 32, 20, 64, 4, 2},
                                   Layer{"conv_2", 64, 9, 64, 3, 1}};
constexpr double kDense = static_cast<double>(kFeatures * kUnits);

// Of one row, forward and backward; the first layer has no gradient with respect to its input.
double multiply_adds() {
  double all = 3 * kDense;
  for (const Layer& layer : kLayers) all += (layer.is_first() ? 2 : 3) * layer.multiply_adds();
  return all;
}

// Does make()'s work on each core at once, again and again, and returns the median of the seconds that one turn takes.
template <typename Make>
double seconds_on_all_cores(const Make& make, double budget) {
  std::barrier together(kCores);
  std::vector<double> seconds(kCores);
  std::vector<std::jthread> threads;
  for (int core = 0; core < kCores; ++core) {
    threads.emplace_back([&, core] {
      const at::NoGradGuard no_grad;
      at::set_num_threads(1);
      const std::function<void()> work = make();
      work();
      std::vector<double> each;
      together.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      while (each.size() < 3 || seconds_since(start) < budget) {
        const Clock::time_point begin = Clock::now();
        work();
        each.push_back(seconds_since(begin));
      }
      seconds[static_cast<std::size_t>(core)] = Samples(std::move(each)).quantile(0.5);
    });
  }
  threads.clear();
  return *std::ranges::max_element(seconds);
}

// A policy and the rows of a minibatch, forward and backward through the kernels.
struct Kernels {
  Kernels() {
    rl::Spec spec;
    spec.id = "Bench-v0";
    spec.observation = {rl::Leaf{.name = "image", .type = rl::ElementType::kUInt8, .shape = {4, 84, 84}}};
    spec.action = rl::Discrete{4};
    const rl::MlpPolicyOptions options{
        .hidden = {kUnits}, .activation = rl::Activation::kRelu, .trunks = rl::Trunks::kShared};
    policy = std::make_shared<rl::MlpPolicy>(spec, options, at::detail::createCPUGenerator(1));
    for (const at::Tensor& parameter : policy->parameters()) {
      at::Tensor held = parameter;
      held.mutable_grad() = at::zeros_like(parameter);
    }
    gradient = std::make_unique<rl::MlpGradient<float>>(*policy, detect_instruction_set());
    pixels = at::randint(256, {kRows, 4, 84, 84}, at::kByte);
  }

  void run() {
    gradient->begin();
    for (std::int64_t first = 0; first < kRows; first += rl::kBlock) {
      const std::int64_t samples = std::min(rl::kBlock, kRows - first);
      for (std::int64_t i = 0; i < samples; ++i) {
        const auto* leaf = static_cast<const std::byte*>(pixels.const_data_ptr()) + (first + i) * pixels.stride(0);
        gradient->take(i, std::span(&leaf, 1));
      }
      gradient->forward(samples);
      gradient->backward();
    }
    gradient->finish();
  }

  std::shared_ptr<rl::MlpPolicy> policy;
  std::unique_ptr<rl::MlpGradient<float>> gradient;
  at::Tensor pixels;
};

enum class Pass { kForward, kBackward };

// A convolution of LibTorch's, in memory that is there.
std::function<void()> libtorch(const Layer& layer, Pass pass, at::MemoryFormat format) {
  const auto in_format = [&](const at::Tensor& x) { return x.contiguous(format); };
  const at::Tensor x = in_format(at::randn({kRows, layer.in, layer.side, layer.side}));
  const at::Tensor w = in_format(at::randn({layer.out, layer.in, layer.kernel, layer.kernel}));
  const at::Tensor bias = at::randn({layer.out});
  const at::Tensor dy = in_format(at::randn({kRows, layer.out, layer.out_side(), layer.out_side()}));
  const std::vector<std::int64_t> stride{layer.stride, layer.stride}, none{0, 0}, one{1, 1}, of_bias{layer.out};
  if (pass == Pass::kForward) return [=] { (void)at::conv2d(x, w, bias, stride); };
  const std::array<bool, 3> mask{!layer.is_first(), true, true};
  return [=] { (void)at::convolution_backward(dy, x, w, of_bias, stride, none, one, false, none, 1, mask); };
}

// Its forward pass in the layout that oneDNN chooses.
std::function<void()> blocked(const Layer& layer) {
  const at::Tensor x = at::randn({kRows, layer.in, layer.side, layer.side}).to_mkldnn();
  const at::Tensor w = at::randn({layer.out, layer.in, layer.kernel, layer.kernel}).to_mkldnn();
  const at::Tensor bias = at::randn({layer.out}).to_mkldnn();
  return [=, stride = layer.stride] { (void)at::conv2d(x, w, bias, {stride, stride}); };
}

std::function<void()> libtorch_dense(Pass pass) {
  const at::Tensor x = at::randn({kRows, kFeatures}), w = at::randn({kUnits, kFeatures}), bias = at::randn({kUnits}),
                   dy = at::randn({kRows, kUnits});
  if (pass == Pass::kForward) return [=] { (void)at::linear(x, w, bias); };
  return [=] {
    (void)at::mm(dy.t(), x);
    (void)at::mm(dy, w);
  };
}

// A convolution of the kernels and the values around it.
struct OurLayer {
  explicit OurLayer(const Layer& layer)
      : step{.kind = rl::TorsoStep::Kind::kConvolve,
             .in = layer.is_first() ? 0U : 1U,
             .convolution = torch::nn::Conv2d(torch::nn::Conv2dOptions(layer.in, layer.out, layer.kernel)),
             .stride = layer.stride},
        in({layer.in, layer.side, layer.side}, 0, layer.is_first()),
        out({layer.out, layer.out_side(), layer.out_side()}, 0, false) {
    in.keep(rl::kBlock, rl::Passes::kForwardAndBackward);
    out.keep(rl::kBlock, rl::Passes::kForwardAndBackward);
    convolution = std::make_unique<rl::TorsoConvolution<float>>(step, in, out, detect_instruction_set(),
                                                                rl::TorsoConvolution<float>::Options{});
    convolution->begin();
  }
  void run(Pass pass) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      in.has_gradient = false;
      if (pass == Pass::kForward) {
        convolution->forward(in, out, row % rl::kBlock);
      } else {
        convolution->backward(in, out, row % rl::kBlock);
      }
    }
  }

  rl::TorsoStep step;
  rl::TorsoValue<float> in, out;
  std::unique_ptr<rl::TorsoConvolution<float>> convolution;
};

// The dense layer of the kernels.
struct OurDense {
  OurDense()
      : mlp({.sizes = {kFeatures, kUnits}}, at::detail::createCPUGenerator(1)),
        net(mlp, rl::block_kernels<float>(detect_instruction_set()), {}),
        scratch(kFeatures),
        columns(kFeatures * rl::kBlock),
        rows(rl::kBlock * rl::row_stride(kFeatures)),
        of_features(rl::kBlock * rl::row_stride(kFeatures)),
        gradient(kUnits * rl::kBlock) {
    net.begin();
  }
  void run(Pass pass) {
    const rl::BlockInput<float> input{.columns = columns.data(), .rows = rows.data()};
    for (std::int64_t first = 0; first < kRows; first += rl::kBlock) {
      if (pass == Pass::kForward) {
        net.forward(input, 0, rl::kBlock);
      } else {
        net.backward(input, 0, rl::kBlock, gradient.data(), rl::ParameterGradients::kOverwrite,
                     {.numbers = of_features.data(),
                      .begin = 0,
                      .count = kFeatures,
                      .layout = rl::BlockNet<float>::OfInput::Layout::kRows},
                     scratch);
      }
    }
  }

  rl::Mlp mlp;
  rl::BlockNet<float> net;
  rl::BackwardScratch<float> scratch;
  rl::AlignedFloats columns, rows, of_features, gradient;
};

void print_rate(const std::string& name, const std::string& contender, double multiply_adds_of_a_row, double seconds) {
  print({.case_name = name,
         .contender = contender,
         .unit = "GFLOP/s",
         .value = 2 * kCores * kRows * multiply_adds_of_a_row / seconds / 1e9,
         .samples = 1});
}

// Prints the rates of one pass of one layer, and returns the seconds of the fastest.
double fastest_of(const std::string& name, double multiply_adds_of_a_row, double budget,
                  const std::vector<std::pair<const char*, std::function<std::function<void()>()>>>& contenders) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [contender, make] : contenders) {
    const double seconds = seconds_on_all_cores(make, budget);
    print_rate(name, contender, multiply_adds_of_a_row, seconds);
    best = std::min(best, seconds);
  }
  return best;
}

template <typename Ours>
std::function<void()> ours(std::shared_ptr<Ours> layer, Pass pass) {
  return [layer = std::move(layer), pass] { layer->run(pass); };
}

// The seconds of all layers, each by whoever is the fastest.
double best_of_each(double budget) {
  double all = 0;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const char* const name = pass == Pass::kForward ? " forward" : " backward";
    for (const Layer& layer : kLayers) {
      const double products = pass == Pass::kForward || layer.is_first() ? 1 : 2;
      std::vector<std::pair<const char*, std::function<std::function<void()>()>>> contenders{
          {"tandem", [&] { return ours(std::make_shared<OurLayer>(layer), pass); }},
          {"LibTorch", [&] { return libtorch(layer, pass, at::MemoryFormat::Contiguous); }},
          {"channels last", [&] { return libtorch(layer, pass, at::MemoryFormat::ChannelsLast); }}};
      if (pass == Pass::kForward) contenders.emplace_back("oneDNN's blocks", [&] { return blocked(layer); });
      all += fastest_of(layer.name + name, products * layer.multiply_adds(), budget, contenders);
    }
    all += fastest_of(std::string("dense") + name, pass == Pass::kForward ? kDense : 2 * kDense, budget,
                      {{"tandem", [&] { return ours(std::make_shared<OurDense>(), pass); }},
                       {"LibTorch", [&] { return libtorch_dense(pass); }}});
  }
  return all;
}

int run_all(Size size) {
  const double budget = size == Size::kSmoke ? 0 : 0.4;
  const double whole =
      seconds_on_all_cores([] { return [kernels = std::make_shared<Kernels>()] { kernels->run(); }; }, 4 * budget);
  print_rate("all layers", "tandem", multiply_adds(), whole);
  print_rate("all layers", "the best of each", multiply_adds(), best_of_each(budget));
  if (const double rate = core_peak(); rate > 0)
    print_rate("all layers", "registers", multiply_adds(), kRows * multiply_adds() / rate);
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run_all); }
