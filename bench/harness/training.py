"""One training that several systems do with the same numbers: what is asked for, and whether an answer can be true."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.model import WrongAnswer


@dataclass(frozen=True)
class Settings:
    """PPO's, with CleanRL's numbers for CartPole-v1 where nothing else is said. Peers' scripts get them as JSON.

    `value_coef` weighs the squared error itself, not half of it. The learning rate falls to zero at `total_steps`.
    """

    env: str = "CartPole-v1"
    total_steps: int = 500_000
    num_envs: int = 8
    rollout_steps: int = 128
    epochs: int = 4
    minibatch_size: int = 256
    hidden: tuple[int, ...] = (64, 64)
    torso: str = "none"  # nature_cnn: convolutions before hidden layers with relu, which actor and critic then share
    compute: str = "float32"  # Tandem's alone
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    clip_range_value: float | None = 0.2  # CleanRL's; None for peers without it
    entropy_coef: float = 0.01
    value_coef: float = 0.25
    max_grad_norm: float = 0.5

    def update_steps(self) -> int:
        """Environment steps from one update to the next."""
        return self.num_envs * self.rollout_steps

    def smoke_steps(self) -> int:
        return (4 if self.torso == "none" else 2) * self.update_steps()

    def smoke_settings(self) -> list[str]:
        """What a smoke run sets besides, as words of --set."""
        return []

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def to_config(self, time_limit: str) -> str:
        """As `tandem train` reads them, on two replicas."""
        return f"""env: {self.env}
total_steps: {self.total_steps}
devices: cpu:2
shards: 2
num_envs: {self.num_envs}
rollout_steps: {self.rollout_steps}
ppo:
  epochs: {self.epochs}
  minibatch_size: {self.minibatch_size}
  learning_rate: {self.learning_rate}
  learning_rate_schedule: linear
  adam_eps: 1e-5
  max_grad_norm: {self.max_grad_norm}
  gamma: {self.gamma}
  gae_lambda: {self.gae_lambda}
  time_limit: {time_limit}
  advantage_normalization: minibatch
  clip_range: {self.clip_range}
  clip_range_schedule: constant
  clip_range_value: {'none' if self.clip_range_value is None else self.clip_range_value}
  entropy_coef: {self.entropy_coef}
  value_coef: {self.value_coef}
  target_kl: none
  compute: {self.compute}
{self.policy_section()}"""

    def policy_section(self) -> str:
        sees = self.torso != "none"
        return f"""policy:
  torso: {self.torso}
  hidden: [{", ".join(map(str, self.hidden))}]
  activation: {"relu" if sees else "tanh"}
  trunks: {"shared" if sees else "separate"}
  head: auto
"""

    def write_config(self, folder: Path, time_limit: str = "terminal") -> Path:
        units = "x".join(map(str, self.hidden))
        path = folder / f"{self.env}-{self.num_envs}x{self.rollout_steps}-{units}-{self.compute}.yaml"
        path.write_text(self.to_config(time_limit))
        return path


@dataclass(frozen=True)
class Expected:
    """What a training has to show, whoever does it."""

    lowest_return: float
    highest_return: float
    learns_after: int  # environment steps after which the mean return of the last 100 episodes ...
    learned_return: float  # ... is at least this

    def check(self, who: str, asked: int, update_steps: int, done: dict[str, Any]) -> None:
        """Throws WrongAnswer unless `done` made the steps `asked` for, within an update, and learned from them."""
        made = done["env_steps"]
        if not asked <= made < asked + update_steps:
            raise WrongAnswer(f"{who} made {made} environment steps; {asked} were asked for, in whole updates")
        mean = done["episode_return_mean"]
        if mean is None or not math.isfinite(mean) or not self.lowest_return <= mean <= self.highest_return:
            raise WrongAnswer(
                f"{who} has a mean return of {mean}; it lies within {self.lowest_return:g} and {self.highest_return:g}"
            )
        if asked >= self.learns_after and mean < self.learned_return:
            raise WrongAnswer(f"{who} did not learn: its mean return is {mean:.1f} after {made} steps")


# bench/env/visual_catch.cc: a ball is caught or lost, 1 or -1.
VISUAL_CATCH = Expected(lowest_return=-1, highest_return=1, learns_after=51_200, learned_return=-0.3)

# Without learning a pole stays up for about 22 steps; after so many environment steps, far longer.
CARTPOLE = Expected(lowest_return=1, highest_return=500, learns_after=300_000, learned_return=100)
