"""PPO on CartPole-v1 with CleanRL's settings: environment steps per second."""

from pathlib import Path

from harness.model import Better, Metric, Place
from harness.training_bench import CLEANRL, CLEANRL_NAME, SB3, SB3_NAME, TrainingBench, cleanrl_config


class PpoCartPole(TrainingBench):
    name = "ppo_cartpole"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 with configs/cartpole-cleanrl.yaml (8 "
        "environments, 128 steps, minibatches of 256), against peers with the same settings at their best number of "
        "threads, and with how much memory?"
    )
    peers = {SB3_NAME: SB3, CLEANRL_NAME: CLEANRL}
    at_least_times = {SB3_NAME: 10, CLEANRL_NAME: 10}

    def __init__(self, place: Place):
        super().__init__(place)
        self.metrics += (Metric("peak_rss_mb", "MB", Better.LOWER, at_most=300),)

    def arguments(self, settings) -> list[str | Path]:
        return [cleanrl_config(self.place)]


BENCH = PpoCartPole
