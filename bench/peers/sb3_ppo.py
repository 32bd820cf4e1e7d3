"""Trains CartPole-v1 with the PPO of stable-baselines3, with the settings of configs/cartpole-cleanrl.yaml.

    OMP_NUM_THREADS=1 python sb3_ppo.py --steps 500000 --seed 1

Prints one line of JSON at the end. Steps per second count from the start of training to its end, start-up left out, as
the env_steps_per_s of `tandem train` does. stable-baselines3's value loss is the mean squared error times vf_coef, so
CleanRL's half of it times 0.5 is vf_coef 0.25. CleanRL's clipped value loss (the larger of two) is left out:
clip_range_vf means another one.
"""

import argparse
import json
import time
from collections import deque

import gymnasium
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

ENVS, ROLLOUT_STEPS, EPOCHS, MINIBATCHES = 8, 128, 4, 4


class Watch(BaseCallback):
    """Notes when training started, when the first update was done, and the returns of the last 100 episodes."""

    def __init__(self):
        super().__init__()
        self.returns = deque(maxlen=100)
        self.started = self.first_update_at = None
        self.rollouts = 0

    def _on_training_start(self):
        self.started = time.monotonic()

    def _on_rollout_start(self):
        self.rollouts += 1
        if self.rollouts == 2:
            self.first_update_at = time.monotonic()

    def _on_step(self):
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(info["episode"]["r"])
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    env = make_vec_env("CartPole-v1", n_envs=ENVS, seed=options.seed, vec_env_cls=DummyVecEnv)
    model = PPO(
        "MlpPolicy",
        env,
        seed=options.seed,
        device="cpu",
        learning_rate=lambda left: 2.5e-4 * left,
        n_steps=ROLLOUT_STEPS,
        batch_size=ENVS * ROLLOUT_STEPS // MINIBATCHES,
        n_epochs=EPOCHS,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.01,
        vf_coef=0.25,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh},
    )
    watch = Watch()
    model.learn(options.steps, callback=watch)
    seconds = time.monotonic() - watch.started
    print(
        json.dumps(
            {
                "env_steps": model.num_timesteps,
                "env_steps_per_s": model.num_timesteps / seconds,
                "first_update_at": watch.first_update_at,
                "episodes": len(watch.returns),
                "episode_return_mean": sum(watch.returns) / max(1, len(watch.returns)),
                "threads": torch.get_num_threads(),
                "versions": {
                    "stable-baselines3": stable_baselines3.__version__,
                    "torch": torch.__version__,
                    "gymnasium": gymnasium.__version__,
                },
            }
        )
    )


if __name__ == "__main__":
    main()
