#include "tandem/app/config/other_names.h"

#include <algorithm>
#include <array>

namespace tandem::app {
namespace {

struct Foreign {
  std::string_view key, instead;
};

// Keys of RLlib's PPO and DD-PPO, as its versions 0.8 to 2.5 have them.
constexpr std::array kForeign{
    Foreign{
        "train_batch_size",
        "the batch follows from others: num_envs (or dd_ppo.envs_per_rank) environments of rollout_steps steps each"},
    Foreign{"rollout_fragment_length", "here it is rollout_steps"},
    Foreign{"sample_batch_size", "here it is rollout_steps"},
    Foreign{"sgd_minibatch_size",
            "here it is dd_ppo.minibatch_size_per_rank, on each rank, or ppo.minibatch_size, over all of them"},
    Foreign{"num_sgd_iter", "here it is ppo.epochs"},
    Foreign{"num_envs_per_worker", "here it is dd_ppo.envs_per_rank, or num_envs for the whole run"},
    Foreign{"num_workers", "ranks are started by --ranks or a launcher, and there is at least one"},
    Foreign{"num_rollout_workers", "ranks are started by --ranks or a launcher, and there is at least one"},
    Foreign{"num_gpus", "every rank learns on its own devices: name them with devices"},
    Foreign{"num_gpus_per_worker", "every rank learns on its own devices: name them with devices"},
    Foreign{"batch_mode", "here it is ppo.batch_mode"},
    Foreign{"framework", "there is one, LibTorch; leave it out"},
    Foreign{"torch_distributed_backend", "ranks exchange as the flag --backend says"},
    Foreign{"keep_local_weights_in_sync", "the parameters of all ranks always are; leave it out"},
    Foreign{"kl_coeff", "here it is ppo.kl_coef"},
    Foreign{"lr", "here it is ppo.learning_rate"},
    Foreign{"lr_schedule", "here it is ppo.learning_rate_schedule"},
    Foreign{"entropy_coeff", "here it is ppo.entropy_coef"},
    Foreign{"entropy_coeff_schedule", "here it is ppo.entropy_coef_schedule"},
    Foreign{"vf_loss_coeff", "here it is ppo.value_coef"},
    Foreign{"vf_clip_param", "here it is ppo.clip_range_value"},
    Foreign{"clip_param", "here it is ppo.clip_range"},
    Foreign{"grad_clip", "here it is ppo.max_grad_norm"},
    Foreign{"lambda", "here it is ppo.gae_lambda"},
};

struct Former {
  std::string_view key, now;
};

// Keys under which earlier builds recorded options that are now common to algorithms.
constexpr std::array kFormer{
    Former{"dd_ppo.survivors", "survivors"},
    Former{"dd_ppo.deadline_seconds", "deadline_seconds"},
};

}  // namespace

std::string_view current_name(std::string_view key) {
  const auto* const found = std::ranges::find(kFormer, key, &Former::key);
  return found == kFormer.end() ? key : found->now;
}

std::optional<std::string> instead_of_foreign(std::string_view key) {
  const std::string_view last = key.substr(key.rfind('.') + 1);  // npos + 1 is 0
  const auto found = std::ranges::find(kForeign, last, &Foreign::key);
  return found == kForeign.end() ? std::nullopt : std::optional<std::string>(found->instead);
}

}  // namespace tandem::app
