"""Trains with SAC, TD3 or DQN of stable-baselines3, or of sbx where that is installed; training_line.py has the command
line. sbx has the interface of stable-baselines3, with JAX beneath it.

Both explore with TD3 as the paper does, by normal noise of 0.1.
"""

import importlib.util

import numpy
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv
from sb3_watch import Watch
from training_line import Account, arguments

HAS_SBX = importlib.util.find_spec("sbx") is not None
if HAS_SBX:
    import sbx as library
else:
    import stable_baselines3 as library


def own_arguments(its, env):
    if its.algo == "dqn":
        # The target network's way is counted in environment steps here.
        steps = its.target_every * its.train_every * its.num_envs // its.gradient_steps
        return {"exploration_fraction": 0.1, "exploration_final_eps": 0.05, "target_update_interval": max(1, steps)}
    if its.algo == "td3":
        size = env.action_space.shape[0]
        noise = NormalActionNoise(numpy.zeros(size), 0.1 * numpy.ones(size))
        return {"action_noise": VectorizedActionNoise(noise, its.num_envs)}
    return {}


def main():
    options = arguments()
    its = options.settings
    env = make_vec_env(its.env, n_envs=its.num_envs, seed=options.seed, vec_env_cls=DummyVecEnv)
    policy = {"net_arch": its.hidden} if HAS_SBX else {"net_arch": its.hidden, "activation_fn": torch.nn.ReLU}
    model = getattr(library, its.algo.upper())(
        "MlpPolicy",
        env,
        seed=options.seed,
        device="cpu",
        learning_rate=its.learning_rate,
        buffer_size=its.replay_size,
        learning_starts=its.learning_starts,
        batch_size=its.batch_size,
        tau=its.tau,
        gamma=its.gamma,
        train_freq=its.train_every,
        gradient_steps=its.gradient_steps,
        policy_kwargs=policy,
        **own_arguments(its, env),
    )
    account = Account(options)
    model.learn(options.steps, callback=Watch(account, its.learning_starts))
    packages = ("sbx-rl", "jax", "gymnasium") if HAS_SBX else ("stable-baselines3", "torch", "gymnasium")
    print(account.line(model.num_timesteps, packages, torch.get_num_threads()))


if __name__ == "__main__":
    main()
