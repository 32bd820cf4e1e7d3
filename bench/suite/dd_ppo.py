"""DD-PPO on CartPole-v1 with RLlib's settings: environment steps per second, against RLlib 2.5.1."""

from pathlib import Path

from harness.training import Expected, Settings
from harness.training_bench import RLLIB_NAME, TrainingBench, rllib

RANKS = 2


class DdPpo(TrainingBench):
    name = "dd_ppo"
    question = (
        "How many environment steps per second does DD-PPO make on CartPole-v1 with two ranks, each with 5 "
        "environments, 100 steps, and 10 passes of minibatches of 50, 64x64 tanh networks, against RLlib 2.5.1 with "
        "the same?"
    )
    # minibatch_size: rows on each rank.
    settings = Settings(
        total_steps=300_000, num_envs=10, rollout_steps=100, epochs=10, minibatch_size=50, learning_rate=3e-4
    )
    expected = Expected(lowest_return=1, highest_return=500, learns_after=300_000, learned_return=50)
    peers = {RLLIB_NAME: rllib("ddppo", "DDPPO over Gloo", steps=30_000, learned_return=25)}
    at_least_times = {RLLIB_NAME: 30}

    def arguments(self, settings) -> list[str | Path]:
        return [self._write(settings), "--ranks", str(RANKS)]

    def _write(self, its) -> Path:
        path = self.place.scratch / "dd_ppo.yaml"
        path.write_text(f"""algo: dd_ppo
env: {its.env}
rollout_steps: {its.rollout_steps}
dd_ppo:
  envs_per_rank: {its.num_envs // RANKS}
  minibatch_size_per_rank: {its.minibatch_size}
ppo:
  epochs: {its.epochs}
  learning_rate: {its.learning_rate}
  gamma: {its.gamma}
  gae_lambda: {its.gae_lambda}
  clip_range: {its.clip_range}
  entropy_coef: {its.entropy_coef}
  value_coef: {its.value_coef}
  max_grad_norm: {its.max_grad_norm}
{its.policy_section()}""")
        return path


BENCH = DdPpo
