"""Trains CartPole-v1 with the algorithms of RLlib 2.5.1; training_line.py has the command line, and

    --algo impala   two rollout workers; settings.num_envs environments in all, batches of minibatch_size rows
    --algo ddppo    the same workers, each of which learns; settings.minibatch_size rows of each worker at a time

Networks of tanh layers, separate for actor and critic, by the older of its two interfaces, which has DD-PPO. Steps are
counted from the end of the first iterations on, as the workers start slowly.
"""

import argparse
import contextlib
import os
import sys
import warnings

from training_line import Account, arguments

WORKERS = 2


def own_arguments():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--algo", choices=("impala", "ddppo"), required=True)
    its, others = parser.parse_known_args()
    sys.argv[1:] = others
    return its.algo


algo = own_arguments()
options = arguments()
warnings.filterwarnings("ignore")
with contextlib.redirect_stdout(sys.stderr):
    import ray
    import torch
    from ray.rllib.algorithms.ddppo import DDPPOConfig
    from ray.rllib.algorithms.impala import ImpalaConfig


def common(config, its):
    model = {"fcnet_hiddens": list(its.hidden), "fcnet_activation": "tanh", "vf_share_layers": False}
    config = config.environment(its.env).framework("torch").resources(num_gpus=0)
    config = config.debugging(seed=options.seed, log_level="ERROR").rl_module(_enable_rl_module_api=False)
    return config.training(
        _enable_learner_api=False,
        model=model,
        lr=its.learning_rate,
        gamma=its.gamma,
        entropy_coeff=its.entropy_coef,
        grad_clip=its.max_grad_norm,
    )


def impala(its):
    config = common(ImpalaConfig(), its).training(train_batch_size=its.minibatch_size, vf_loss_coeff=its.value_coef)
    config = config.rollouts(
        num_rollout_workers=WORKERS,
        num_envs_per_worker=its.num_envs // WORKERS,
        rollout_fragment_length=its.rollout_steps,
    )
    return config.reporting(min_time_s_per_iteration=1)


def ddppo(its):
    # Its own check refuses the fragment when it is written out; "auto" makes it train_batch_size / environments.
    envs = its.num_envs // WORKERS
    config = common(DDPPOConfig(), its).training(
        train_batch_size=envs * its.rollout_steps,
        sgd_minibatch_size=its.minibatch_size,
        num_sgd_iter=its.epochs,
        torch_distributed_backend="gloo",
        clip_param=its.clip_range,
        lambda_=its.gae_lambda,
        vf_loss_coeff=its.value_coef,
    )
    config = config.rollouts(num_rollout_workers=WORKERS, num_envs_per_worker=envs, rollout_fragment_length="auto")
    return config.resources(num_gpus_per_worker=0)


def steps_of(result):
    return result.get("num_env_steps_sampled") or result["timesteps_total"]


def main():
    its, account = options.settings, Account(options)
    with contextlib.redirect_stdout(sys.stderr):
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        algorithm = {"impala": impala, "ddppo": ddppo}[algo](its).build()
        result = algorithm.train()
        account.update_ends()
        account.training_starts(begin := steps_of(result))
        while steps_of(result) - begin < options.steps:
            result = algorithm.train()
        mean = result["episode_reward_mean"]
        line = account.line(steps_of(result), ("ray", "torch", "gymnasium"), torch.get_num_threads(), mean_return=mean)
        algorithm.stop()
        ray.shutdown()
    print(line, flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
