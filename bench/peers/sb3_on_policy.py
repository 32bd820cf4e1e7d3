"""What the PPO of stable-baselines3 and the RecurrentPPO of sb3-contrib are given alike, and how both are run."""

import torch
from sb3_watch import Watch
from training_line import Account


def ppo_arguments(options):
    its = options.settings
    # progress_remaining counts down over the steps of learn(); the rate is that of the whole run.
    share = options.steps / its.total_steps
    return {
        "seed": options.seed,
        "device": "cpu",
        "learning_rate": lambda left: its.learning_rate * max(0.0, 1 - (1 - left) * share),
        "n_steps": its.rollout_steps,
        "batch_size": its.minibatch_size,
        "n_epochs": its.epochs,
        "gamma": its.gamma,
        "gae_lambda": its.gae_lambda,
        "clip_range": its.clip_range,
        "ent_coef": its.entropy_coef,
        "vf_coef": its.value_coef,
        "max_grad_norm": its.max_grad_norm,
    }


def train(model, options, packages):
    """Prints the line of the training."""
    account = Account(options)
    model.learn(options.steps, callback=Watch(account))
    account.update_ends()
    print(account.line(model.num_timesteps, packages, torch.get_num_threads()))
