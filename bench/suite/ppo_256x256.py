"""PPO on CartPole-v1 with networks of two layers of 256 units, where most of the time is arithmetic."""

from harness.training import Settings
from harness.training_bench import SB3, SB3_NAME, TrainingBench


class Ppo256x256(TrainingBench):
    name = "ppo_256x256"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 with 256x256 networks (8 environments, 128 "
        "steps, minibatches of 256), against stable-baselines3 with the same settings at its best number of threads?"
    )
    settings = Settings(total_steps=300_000, hidden=(256, 256))
    peers = {SB3_NAME: SB3}
    at_least_times = {SB3_NAME: 4}


BENCH = Ppo256x256
