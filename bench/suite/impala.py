"""IMPALA on CartPole-v1: environment steps per second, against RLlib 2.5.1."""

from pathlib import Path

from harness.model import Samples
from harness.training import Expected, Settings
from harness.training_bench import RLLIB_NAME, TrainingBench, rllib


class Impala(TrainingBench):
    name = "impala"
    question = (
        "How many environment steps per second does IMPALA learn from on CartPole-v1 with two rollout workers of 10 "
        "environments, batches of 500 steps and 64x64 tanh networks, against RLlib 2.5.1 with the same?"
    )
    settings = Settings(
        total_steps=1_000_000, num_envs=20, rollout_steps=50, minibatch_size=500, learning_rate=5e-4, max_grad_norm=40
    )
    expected = Expected(lowest_return=1, highest_return=500, learns_after=300_000, learned_return=50)
    peers = {RLLIB_NAME: rllib("impala", "IMPALA", steps=100_000, learned_return=30)}
    at_least_times = {RLLIB_NAME: 30}

    def config(self) -> Path:
        its = self.settings
        path = self.place.scratch / "impala.yaml"
        path.write_text(f"""algo: impala
env: {its.env}
num_envs: {its.num_envs}
rollout_steps: {its.rollout_steps}
impala:
  workers: 2
  learning_rate: {its.learning_rate}
  learning_rate_schedule: constant
  max_grad_norm: {its.max_grad_norm}
  gamma: {its.gamma}
  entropy_coef: {its.entropy_coef}
  value_coef: {its.value_coef}
{its.policy_section()}""")
        return path

    def check(self, samples: Samples) -> None:
        """Sampling and learning at the same time, no two runs have the same numbers."""


BENCH = Impala
