"""One training from a replay that several systems do with the same numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.training_bench import Peer

SB3_NAME, CLEANRL_NAME, SBX_NAME, RLTOOLS_NAME = "stable-baselines3", "cleanrl (own script)", "sbx", "rl-tools"
SB3 = Peer("sb3", "sb3_off_policy.py", ("stable-baselines3", "torch", "gymnasium"))
SBX = Peer("sbx", "sb3_off_policy.py", ("sbx-rl", "jax", "gymnasium"), note="its operations compiled by XLA")
CLEANRL = Peer("sb3", "cleanrl_sac.py", ("torch", "gymnasium"), note="our own script of CleanRL's settings")
RLTOOLS = Peer(
    "rltools",
    "rltools_off_policy.py",
    ("rltools", "gymnasium"),
    note="compiled for the settings, with MKL, one environment",
)
SAC_PEERS = {SB3_NAME: SB3, CLEANRL_NAME: CLEANRL, SBX_NAME: SBX, RLTOOLS_NAME: RLTOOLS}


@dataclass(frozen=True)
class OffPolicySettings:
    """Peers' scripts get them as JSON. Counts are totals over the environments; those of a step, `train_every` and
    `gradient_steps`, are of each environment and of all of them together."""

    algo: str
    env: str
    total_steps: int
    num_envs: int = 1
    rollout_steps: int = 250  # of each environment: how often Tandem reports
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    batch_size: int = 256
    train_every: int = 1
    gradient_steps: int = 1
    learning_starts: int = 500
    replay_size: int = 100_000
    gamma: float = 0.99
    tau: float = 0.005
    target_every: int = 1  # optimizer steps
    compute: str = "float32"  # Tandem's alone
    replicas: int = 1  # of Tandem
    episode_steps: int = 500  # environment steps, of all environments, within which one has ended an episode

    def update_steps(self) -> int:
        """Environment steps from one line of metrics to the next."""
        return self.num_envs * self.rollout_steps

    def smoke_steps(self) -> int:
        return max(self.learning_starts + 2 * self.update_steps(), self.episode_steps)

    def smoke_settings(self) -> list[str]:
        """Optimizer steps take nearly all of the time, and a few tell as much as many."""
        return [f"{self.algo}.train_every=10", f"{self.algo}.gradient_steps=1"]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def write_config(self, folder: Path, time_limit: str = "") -> Path:
        """As `tandem train` reads them. A time limit is never the end of a task here, for any of the systems."""
        text = f"""algo: {self.algo}
env: {self.env}
total_steps: {self.total_steps}
devices: cpu:{self.replicas}
shards: {self.replicas}
num_envs: {self.num_envs}
rollout_steps: {self.rollout_steps}
{self.algo}:
  learning_rate: {self.learning_rate}
  batch_size: {self.batch_size}
  replay_size: {self.replay_size}
  learning_starts: {self.learning_starts}
  train_every: {self.train_every}
  gradient_steps: {self.gradient_steps}
  gamma: {self.gamma}
  tau: {self.tau}
  target_every: {self.target_every}
  compute: {self.compute}
policy:
  hidden: [{", ".join(map(str, self.hidden))}]
  activation: relu
"""
        path = folder / f"{self.algo}-{self.env}-{'x'.join(map(str, self.hidden))}-{self.compute}.yaml"
        path.write_text(text)
        return path
