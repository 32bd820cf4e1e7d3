"""Trains with the PPO of stable-baselines3; training_line.py has the command line.

stable-baselines3's value loss is the mean squared error times vf_coef, as Tandem's. CleanRL's clipped value loss (the
larger of two) is left out: clip_range_vf means another one.
"""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv
from sb3_watch import Watch
from training_line import Account, arguments
from visual_catch import register


def main():
    options = arguments()
    its = options.settings
    register()
    env = make_vec_env(its.env, n_envs=its.num_envs, seed=options.seed, vec_env_cls=DummyVecEnv)
    # progress_remaining counts down over the steps of learn(); the rate is that of the whole run.
    share = options.steps / its.total_steps
    if its.torso == "nature_cnn":  # which has a layer of `hidden` units behind it, and the heads behind that
        policy_kwargs = {"features_extractor_kwargs": {"features_dim": its.hidden[0]}, "net_arch": []}
    else:
        policy_kwargs = {"net_arch": {"pi": its.hidden, "vf": its.hidden}, "activation_fn": torch.nn.Tanh}
    model = PPO(
        "CnnPolicy" if its.torso == "nature_cnn" else "MlpPolicy",
        env,
        seed=options.seed,
        device="cpu",
        learning_rate=lambda left: its.learning_rate * max(0.0, 1 - (1 - left) * share),
        n_steps=its.rollout_steps,
        batch_size=its.minibatch_size,
        n_epochs=its.epochs,
        gamma=its.gamma,
        gae_lambda=its.gae_lambda,
        clip_range=its.clip_range,
        ent_coef=its.entropy_coef,
        vf_coef=its.value_coef,
        max_grad_norm=its.max_grad_norm,
        policy_kwargs=policy_kwargs,
    )
    account = Account(options)
    model.learn(options.steps, callback=Watch(account))
    account.update_ends()
    packages = ("stable-baselines3", "torch", "gymnasium")
    print(account.line(model.num_timesteps, packages, torch.get_num_threads()))


if __name__ == "__main__":
    main()
