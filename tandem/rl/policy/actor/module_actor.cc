#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/text.h"
#include "tandem/rl/policy/actor/actors.h"

namespace tandem::rl {
namespace {

// Copies `from`, as numbers of that type, to the caller's memory.
void write(const at::Tensor& from, at::ScalarType dtype, void* out) {
  const at::Tensor numbers = from.to(at::kCPU, dtype).contiguous();
  std::memcpy(out, numbers.const_data_ptr(), numbers.nbytes());
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

ModuleActor::ModuleActor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows, std::uint64_t seed)
    : policy_(policy),
      recurrent_(dynamic_cast<RecurrentActorCritic*>(&policy)),
      options_(options),
      rows_(rows),
      generator_(at::detail::createCPUGenerator(seed)),
      noise_stream_(seed, 1) {
  if (recurrent_ != nullptr) state_ = at::zeros({rows, recurrent_->state_size()});
}

void ModuleActor::refresh() {
  if (noise_) noise_->renew();
}

// The plan: eval mode, observations (and states) to the policy's device, one forward pass, action parameters back to
// the CPU. The module is left in the mode that it was in, because learning may share it.
SequenceOutput ModuleActor::forward(const Observation& observation, const at::Tensor& state) {
  const at::NoGradGuard no_grad;
  const bool was_training = policy_.is_training();
  if (was_training) policy_.eval();
  const c10::Device device = policy_.parameters().front().device();
  const Observation there = to_device(observation, device);
  SequenceOutput result;
  if (recurrent_ != nullptr) {
    result = recurrent_->forward_sequences({.observation = there, .state = state.to(device), .start = {}});
  } else {
    result.output = policy_.forward(there);
  }
  if (was_training) policy_.train();
  check_value(result.output, observation.front().size(0));
  for (at::Tensor& parameter : result.output.action_parameters)
    parameter = parameter.to(at::kCPU, at::kFloat).contiguous();
  return result;
}

// Noise that lasts over steps goes through ActionSampler; all else through the policy's own distribution(), which a
// user may have overridden.
void ModuleActor::act(const Observation& observation, const at::Tensor& mask, const Decisions& out) {
  const SequenceOutput result = forward(observation, state_);
  if (state_.defined()) state_.copy_(result.state);
  const PolicyOutput& output = result.output;
  write(output.value, at::kFloat, out.value);
  if (policy_.family() == ActionFamily::kStateDependentNoise) {
    const at::Tensor &mean = output.action_parameters[0], &latent = output.action_parameters[1],
                     &log_std = output.action_parameters[2];
    if (!noise_) {
      noise_ = std::make_unique<ActionSampler>(policy_.spec(), policy_.family(), options_, rows_, latent.size(1),
                                               noise_stream_);
    }
    return noise_->sample({.head = mean.const_data_ptr<float>(),
                           .log_std = log_std.const_data_ptr<float>(),
                           .latent = latent.const_data_ptr<float>()},
                          out);
  }
  if (options_.noise_correlation > 0) {
    const at::Tensor &mean = output.action_parameters[0], &log_std = output.action_parameters[1];
    if (!noise_)
      noise_ = std::make_unique<ActionSampler>(policy_.spec(), policy_.family(), options_, rows_, 0, noise_stream_);
    return noise_->sample({.head = mean.const_data_ptr<float>(),
                           .log_std = log_std.const_data_ptr<float>(),
                           .log_std_stride = log_std.dim() == 2 ? log_std.size(1) : 0},
                          out);
  }
  const std::unique_ptr<model::Distribution> distribution = policy_.distribution(output, mask);
  const at::Tensor actions =
      options_.acting == Acting::kSample ? distribution->sample(generator_) : distribution->mode();
  if (out.discrete != nullptr) {
    write(actions, at::kLong, out.discrete);
  } else {
    write(actions, at::kFloat, out.box);
  }
  write(distribution->log_prob(actions), at::kFloat, out.log_prob);
}

// A state of zeros is the one that an episode begins with.
void ModuleActor::episodes_ended(std::span<const std::uint8_t> done) {
  if (noise_) noise_->renew(done);
  if (!state_.defined()) return;
  const std::int64_t size = state_.size(1);
  for (std::size_t row = 0; row < done.size(); ++row) {
    if (done[row] != 0) std::fill_n(state_.data_ptr<float>() + static_cast<std::int64_t>(row) * size, size, 0.0F);
  }
}

void ModuleActor::evaluate(const Observation& observation, const at::Tensor& state, float* value) {
  write(forward(observation, state).output.value, at::kFloat, value);
}

// The layout: the generator's state; whether there is noise, and then its features and its sampler; the states of the
// rows.
std::vector<std::byte> ModuleActor::save() const {
  StateWriter out;
  out.put_bytes(bytes_of(generator_.get_state().contiguous()));
  out.put(static_cast<std::uint8_t>(noise_ != nullptr));
  if (noise_) {
    out.put(noise_->features());
    noise_->save(out);
  }
  if (state_.defined()) out.put_bytes(bytes_of(state_));
  return out.take();
}

// Sizes are compared before anything is taken over; noise is made here when the saved actor had it.
void ModuleActor::load(std::span<const std::byte> bytes) {
  StateReader in(bytes, "an actor");
  const std::span<const std::byte> generator = in.get_bytes();
  at::Tensor state = at::empty({static_cast<std::int64_t>(generator.size())}, at::kByte);
  if (generator.size() != generator_.get_state().nbytes())
    in.fail(concat("its generator's state has ", generator.size(), " bytes, and must have ",
                   generator_.get_state().nbytes(),
                   ": another LibTorch wrote it, or an actor in loops (`kernel: auto`)"));
  std::memcpy(state.data_ptr(), generator.data(), generator.size());
  generator_.set_state(state);
  if (in.get<std::uint8_t>() != 0) {
    const auto features = in.get<std::int64_t>();
    noise_ =
        std::make_unique<ActionSampler>(policy_.spec(), policy_.family(), options_, rows_, features, noise_stream_);
    noise_->load(in);
  }
  if (state_.defined()) {
    const std::span<const std::byte> states = in.get_bytes();
    if (states.size() != state_.nbytes())
      in.fail(concat("what its rows remember has ", states.size(), " bytes, and must have ", state_.nbytes()));
    std::memcpy(state_.data_ptr(), states.data(), states.size());
  }
  in.expect_end();
}

}  // namespace tandem::rl
