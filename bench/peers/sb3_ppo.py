"""Trains with the PPO of stable-baselines3; training_line.py has the command line.

stable-baselines3's value loss is the mean squared error times vf_coef, as Tandem's. CleanRL's clipped value loss (the
larger of two) is left out: clip_range_vf means another one.
"""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv
from sb3_on_policy import ppo_arguments, train
from training_line import arguments
from visual_catch import register


def main():
    options = arguments()
    its = options.settings
    register()
    env = make_vec_env(its.env, n_envs=its.num_envs, seed=options.seed, vec_env_cls=DummyVecEnv)
    if its.torso == "nature_cnn":  # which has a layer of `hidden` units behind it, and the heads behind that
        policy_kwargs = {"features_extractor_kwargs": {"features_dim": its.hidden[0]}, "net_arch": []}
    else:
        policy_kwargs = {"net_arch": {"pi": its.hidden, "vf": its.hidden}, "activation_fn": torch.nn.Tanh}
    model = PPO(
        "CnnPolicy" if its.torso == "nature_cnn" else "MlpPolicy",
        env,
        **ppo_arguments(options),
        policy_kwargs=policy_kwargs,
    )
    train(model, options, ("stable-baselines3", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
