#include "tandem/rl/algo/dqn/noisy_layers.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "tandem/rl/policy/kernels/block_net.h"

namespace tandem::rl {
namespace {

// f(e) = sign(e) sqrt(|e|) of standard normal e, as the paper's factorised noise has it.
std::vector<float> factors(std::int64_t count, Philox& random) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& each : all) {
    const double e = random.normal();
    each = static_cast<float>(std::copysign(std::sqrt(std::abs(e)), e));
  }
  return all;
}

// Calls work(means, deviations, drawn, factors of the outputs, factors of the inputs or null) for the weight and for
// the bias of each layer; of a bias the inputs are one, whose factor is 1.
template <typename Work>
void for_parameters(const Mlp& net, const Mlp& deviations, const Mlp& drawn, const NetNoise& noise, const Work& work) {
  for (std::size_t i = 0; i < noise.size(); ++i) {
    const torch::nn::Linear &mean = net.layers()[i], &deviation = deviations.layers()[i], &its = drawn.layers()[i];
    work(mean->weight, deviation->weight, its->weight, noise[i].outputs, noise[i].inputs.data());
    work(mean->bias, deviation->bias, its->bias, noise[i].outputs, nullptr);
  }
}

}  // namespace

NetNoise draw_noise(const Mlp& net, Philox& random) {
  NetNoise noise;
  for (const torch::nn::Linear& layer : net.layers()) {
    std::vector<float> inputs = factors(layer->weight.size(1), random);
    noise.push_back({.inputs = std::move(inputs), .outputs = factors(layer->weight.size(0), random)});
  }
  return noise;
}

// The weights that an Mlp begins with are overwritten.
std::shared_ptr<Mlp> make_deviations(const Mlp& net, double first) {
  auto deviations = std::make_shared<Mlp>(net.options(), at::detail::createCPUGenerator(0));
  const at::NoGradGuard no_grad;
  for (const torch::nn::Linear& layer : deviations->layers()) {
    const double its = first / std::sqrt(static_cast<double>(layer->weight.size(1)));
    layer->weight.fill_(its);
    layer->bias.fill_(its);
  }
  return deviations;
}

// The definition, which the kernels are compared with: noise is a constant, and means and deviations get gradients.
at::Tensor forward_noisy(const Mlp& net, const Mlp& deviations, const NetNoise& noise, at::Tensor x) {
  for (std::size_t i = 0; i < net.layers().size(); ++i) {
    const torch::nn::Linear &mean = net.layers()[i], &deviation = deviations.layers()[i];
    const auto like = mean->weight.options().requires_grad(false);
    const at::Tensor outputs = at::tensor(noise.at(i).outputs).to(like), inputs = at::tensor(noise[i].inputs).to(like);
    x = at::linear(x, mean->weight + deviation->weight * at::outer(outputs, inputs),
                   mean->bias + deviation->bias * outputs);
    if (net.is_activated(i)) x = activate(net.options().activation, x);
  }
  return x;
}

NoisyDraw::NoisyDraw(const Mlp& net, const Mlp& deviations)
    : net_(net),
      deviations_(deviations),
      drawn_(std::make_shared<Mlp>(net.options(), at::detail::createCPUGenerator(0))) {
  for (const at::Tensor& parameter : drawn_->parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
}

// The drawn network has memory of its own, which the kernels read like any network's.
void NoisyDraw::take(const NetNoise& noise) {
  noise_ = noise;
  for_parameters(net_, deviations_, *drawn_, noise_,
                 [](const at::Tensor& mean, const at::Tensor& deviation, const at::Tensor& drawn,
                    const std::vector<float>& outputs, const float* inputs) {
                   const auto *m = mean.const_data_ptr<float>(), *d = deviation.const_data_ptr<float>();
                   auto* to = static_cast<float*>(drawn.data_ptr());
                   const std::int64_t width = inputs == nullptr ? 1 : mean.size(1);
                   for (const float output : outputs) {
                     for (std::int64_t i = 0; i < width; ++i)
                       to[i] = m[i] + d[i] * (inputs == nullptr ? output : output * inputs[i]);
                     m += width, d += width, to += width;
                   }
                 });
}

// A drawn weight is mean + deviation * noise, so its gradient is the mean's, and times the noise the deviation's.
void NoisyDraw::give_gradients() const {
  for_parameters(net_, deviations_, *drawn_, noise_,
                 [](const at::Tensor& mean, const at::Tensor& deviation, const at::Tensor& drawn,
                    const std::vector<float>& outputs, const float* inputs) {
                   const auto* from = drawn.grad().const_data_ptr<float>();
                   float *m = gradient_memory<float>(mean), *d = gradient_memory<float>(deviation);
                   const std::int64_t width = inputs == nullptr ? 1 : mean.size(1);
                   for (const float output : outputs) {
                     for (std::int64_t i = 0; i < width; ++i) {
                       m[i] = from[i];
                       d[i] = from[i] * (inputs == nullptr ? output : output * inputs[i]);
                     }
                     m += width, d += width, from += width;
                   }
                 });
}

}  // namespace tandem::rl
