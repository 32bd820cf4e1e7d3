#include "bench/rl/sac_update.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

namespace tandem::bench {
namespace {

constexpr float kDiscount = 0.99F, kTemperature = 0.2F;
constexpr double kTargetRate = 0.005, kRate = 3e-4;

struct Nets : torch::nn::Module {
  Nets(const std::vector<std::int64_t>& sizes, int count, std::uint64_t seed,
       std::vector<std::shared_ptr<rl::Mlp>>& all) {
    const at::Generator generator = at::detail::createCPUGenerator(seed);
    for (int i = 0; i < count; ++i) {
      all.push_back(
          std::make_shared<rl::Mlp>(rl::Mlp::Options{.sizes = sizes, .activation = rl::Activation::kRelu}, generator));
      register_module(std::to_string(i), all.back());
    }
  }
};

double multiply_adds_of(const std::vector<std::int64_t>& sizes) {
  double count = 0;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) count += static_cast<double>(sizes[i] * sizes[i + 1]);
  return count;
}

std::vector<std::int64_t> actor_sizes(const SacSizes& s) {
  return rl::layer_sizes(s.observation, s.hidden, 2 * s.action);
}
std::vector<std::int64_t> critic_sizes(const SacSizes& s) {
  return rl::layer_sizes(s.observation + s.action, s.hidden, 1);
}

}  // namespace

SacUpdate::Trained::Trained(const std::vector<std::int64_t>& sizes, int count, std::uint64_t seed) {
  flat = std::make_unique<model::FlatParameters>(std::make_shared<Nets>(sizes, count, seed, nets),
                                                 model::FlatParameters::Options{});
  gradients = flat->make_gradients([](std::int64_t n, at::ScalarType dtype) { return at::zeros({n}, dtype); });
  flat->bind(gradients);
  optimizer =
      std::make_unique<model::Optimizer>(*flat, std::vector<model::OptimizerOptions>{model::AdamOptions{.lr = kRate}});
}

void SacUpdate::Trained::begin() { gradients.dense[0].zero_(); }

void SacUpdate::Trained::step() {
  gradients.presence[0].fill_(1);
  optimizer->step(gradients, 1, 1);
}

SacUpdate::SacUpdate(const SacSizes& sizes, rl::Compute compute)
    : sizes_(sizes),
      compute_(compute),
      actor_(actor_sizes(sizes), 1, 1),
      critics_(critic_sizes(sizes), 2, 2),
      targets_(critic_sizes(sizes), 2, 2),
      actor_passes_(ensemble(actor_, 0, rl::Passes::kForwardAndBackward)),
      critic_passes_(ensemble(critics_, sizes.action, rl::Passes::kForwardAndBackward)),
      target_passes_(ensemble(targets_, sizes.action, rl::Passes::kForward)),
      draws_(sizes.action, sizes.rows, {}, detect_instruction_set()),
      observation_(at::empty({sizes.rows, sizes.observation})),
      next_observation_(at::empty_like(observation_)),
      action_(at::empty({sizes.rows, sizes.action})),
      reward_(at::empty({sizes.rows})),
      done_(at::zeros({sizes.rows})),
      noise_(at::empty_like(action_)),
      next_noise_(at::empty_like(action_)),
      goal_(static_cast<std::size_t>(sizes.rows)),
      of_value_(static_cast<std::size_t>(2 * sizes.rows)),
      of_log_prob_(static_cast<std::size_t>(sizes.rows)) {
  draw();
}

rl::MlpEnsemble<float> SacUpdate::ensemble(const Trained& of, std::int64_t second, rl::Passes passes) const {
  std::vector<const rl::Mlp*> nets;
  for (const auto& net : of.nets) nets.push_back(net.get());
  return rl::MlpEnsemble<float>(nets, {.max_rows = sizes_.rows,
                                       .second_features = second,
                                       .passes = passes,
                                       .set = detect_instruction_set(),
                                       .compute = compute_});
}

void SacUpdate::draw() {
  for (at::Tensor& each : std::array{observation_, next_observation_, reward_, noise_, next_noise_}) each.normal_();
  action_.uniform_(-1, 1);
}

// The smaller value of the next action and its entropy, where the episode goes on.
void SacUpdate::fuse_targets() {
  const float* next = next_observation_.const_data_ptr<float>();
  draws_.forward(actor_passes_.forward({.first = next}, sizes_.rows), next_noise_.const_data_ptr<float>(), sizes_.rows);
  const float* value = target_passes_.forward({.first = next, .second = draws_.action()}, sizes_.rows);
  const float *reward = reward_.const_data_ptr<float>(), *done = done_.const_data_ptr<float>();
  for (std::int64_t i = 0; i < sizes_.rows; ++i) {
    const float soft = std::min(value[i], value[sizes_.rows + i]) - kTemperature * draws_.log_prob()[i];
    goal_[static_cast<std::size_t>(i)] = reward[i] + kDiscount * (1 - done[i]) * soft;
  }
}

double SacUpdate::fuse_critic_step() {
  const float* value = critic_passes_.forward(
      {.first = observation_.const_data_ptr<float>(), .second = action_.const_data_ptr<float>()}, sizes_.rows);
  double loss = 0;
  for (std::int64_t i = 0; i < 2 * sizes_.rows; ++i) {
    const float error = value[i] - goal_[static_cast<std::size_t>(i % sizes_.rows)];
    of_value_[static_cast<std::size_t>(i)] = 2 * error / static_cast<float>(sizes_.rows);
    loss += static_cast<double>(error) * static_cast<double>(error);
  }
  critic_passes_.backward(of_value_.data(), rl::ParameterGradients::kOverwrite, rl::InputGradient::kNone);
  critics_.step();
  return loss / static_cast<double>(sizes_.rows);
}

// mean(temperature log_prob - the smaller value).
void SacUpdate::fuse_actor_step() {
  const float* observation = observation_.const_data_ptr<float>();
  draws_.forward(actor_passes_.forward({.first = observation}, sizes_.rows), noise_.const_data_ptr<float>(),
                 sizes_.rows);
  const float* value = critic_passes_.forward({.first = observation, .second = draws_.action()}, sizes_.rows);
  const float share = 1 / static_cast<float>(sizes_.rows);
  for (std::int64_t i = 0; i < sizes_.rows; ++i) {
    const bool first = value[i] <= value[sizes_.rows + i];
    of_value_[static_cast<std::size_t>(i)] = first ? -share : 0;
    of_value_[static_cast<std::size_t>(sizes_.rows + i)] = first ? 0 : -share;
    of_log_prob_[static_cast<std::size_t>(i)] = kTemperature * share;
  }
  const float* of_action =
      critic_passes_.backward(of_value_.data(), rl::ParameterGradients::kLeave, rl::InputGradient::kSecond);
  actor_passes_.backward(draws_.backward(of_action, of_log_prob_.data()), rl::ParameterGradients::kOverwrite,
                         rl::InputGradient::kNone);
  actor_.step();
}

double SacUpdate::fuse() {
  fuse_targets();
  const double loss = fuse_critic_step();
  fuse_actor_step();
  const at::NoGradGuard off;
  at::Tensor target = targets_.values();
  target.lerp_(critics_.values(), kTargetRate);
  return loss;
}

std::pair<at::Tensor, at::Tensor> SacUpdate::act(const at::Tensor& observation, const at::Tensor& noise) const {
  const std::vector<at::Tensor> halves = actor_.nets[0]->forward(observation).chunk(2, 1);
  const at::Tensor log_std = halves[1].clamp(-20, 2), u = halves[0] + log_std.exp() * noise;
  const at::Tensor log_slope = (std::log(2.0) - u - at::softplus(u * -2)) * 2;
  return {u.tanh(), (noise.square() * -0.5 - log_std - 0.91893853320467274 - log_slope).sum(1)};
}

std::vector<at::Tensor> SacUpdate::values_of(const Trained& critics, const at::Tensor& observation,
                                             const at::Tensor& action) const {
  const at::Tensor input = at::cat({observation, action}, 1);
  return {critics.nets[0]->forward(input).squeeze(1), critics.nets[1]->forward(input).squeeze(1)};
}

double SacUpdate::differentiate() {
  at::Tensor goal;
  {
    const at::NoGradGuard off;
    const auto [action, log_prob] = act(next_observation_, next_noise_);
    const std::vector<at::Tensor> value = values_of(targets_, next_observation_, action);
    goal = reward_ + (1 - done_) * kDiscount * (at::minimum(value[0], value[1]) - log_prob * kTemperature);
  }
  critics_.begin();
  const std::vector<at::Tensor> value = values_of(critics_, observation_, action_);
  const at::Tensor loss = at::mse_loss(value[0], goal) + at::mse_loss(value[1], goal);
  torch::autograd::backward({loss}, {});
  critics_.step();
  actor_.begin();
  const auto [action, log_prob] = act(observation_, noise_);
  const std::vector<at::Tensor> of_own = values_of(critics_, observation_, action);
  torch::autograd::backward({(log_prob * kTemperature - at::minimum(of_own[0], of_own[1])).mean()}, {},
                            /*retain_graph=*/false, /*create_graph=*/false, actor_.flat->parameters());
  actor_.step();
  const at::NoGradGuard off;
  at::Tensor target = targets_.values();
  target.lerp_(critics_.values(), kTargetRate);
  return loss.item<double>();
}

double SacUpdate::fuse_critics() {
  const float* value = critic_passes_.forward(
      {.first = observation_.const_data_ptr<float>(), .second = action_.const_data_ptr<float>()}, sizes_.rows);
  double sum = 0;
  for (std::int64_t i = 0; i < 2 * sizes_.rows; ++i) sum += static_cast<double>(value[i]);
  std::fill(of_value_.begin(), of_value_.end(), 1.0F);
  critic_passes_.backward(of_value_.data(), rl::ParameterGradients::kOverwrite, rl::InputGradient::kNone);
  return sum;
}

double SacUpdate::differentiate_critics() {
  critics_.begin();
  const std::vector<at::Tensor> value = values_of(critics_, observation_, action_);
  const at::Tensor sum = value[0].sum() + value[1].sum();
  torch::autograd::backward({sum}, {});
  return sum.item<double>();
}

// Forward and backward passes of the critics' and the actor's loss, and the forward passes for the targets. The actor's
// loss needs the derivative of the critics' first layer with respect to the action alone.
double SacUpdate::multiply_adds() const {
  const std::vector<std::int64_t> of_actor = actor_sizes(sizes_), of_critic = critic_sizes(sizes_);
  const double actor = multiply_adds_of(of_actor), critic = multiply_adds_of(of_critic);
  const auto into = [](std::int64_t features, const std::vector<std::int64_t>& all) {
    return static_cast<double>(features * all[1]);
  };
  const double actor_passes = actor + 3 * actor - into(sizes_.observation, of_actor);
  const double critic_passes =
      critic + 3 * critic - into(of_critic[0], of_critic) + 2 * critic - into(sizes_.observation, of_critic);
  return static_cast<double>(sizes_.rows) * (actor_passes + 2 * critic_passes);
}

double SacUpdate::multiply_adds_of_critics() const {
  const std::vector<std::int64_t> of_critic = critic_sizes(sizes_);
  return 2 * static_cast<double>(sizes_.rows) *
         (3 * multiply_adds_of(of_critic) - static_cast<double>(of_critic[0] * of_critic[1]));
}

std::vector<at::Tensor> SacUpdate::parameters() const {
  return {actor_.values().clone(), critics_.values().clone(), targets_.values().clone()};
}

}  // namespace tandem::bench
