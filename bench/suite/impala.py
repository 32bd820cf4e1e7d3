"""IMPALA on CartPole-v1: environment steps per second, against RLlib 2.5.1 and our own PPO; and who of it waits for
whom."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.model import Better, Contender, Metric, Sample, Samples, Size
from harness.tandem_training import TandemTraining
from harness.training import Expected, Settings
from harness.training_bench import RLLIB_NAME, TrainingBench, rllib

PPO, ONE_PASS, FUSED = "tandem ppo, 4 passes", "tandem ppo, 1 pass", "tandem, fused kernels"
LEARNER_IDLE, WORKERS_IDLE = "learner idle when sampling is faster", "workers idle when learning is faster"
LOAD_WAIT = "load wait of 40 MiB batches"
BATCH_BYTES = 40 << 20
ROW_BYTES = 4 * 4 + 8 + 4 + 4 + 1  # observation, action, its log-probability, reward, end


class Impala(TrainingBench):
    name = "impala"
    question = (
        "How many environment steps per second does IMPALA learn from on CartPole-v1 with two rollout workers of 10 "
        "environments, batches of 500 steps and 64x64 tanh networks, without fused kernels, against RLlib 2.5.1 and "
        "our PPO on two replicas with the same? Which share of its time does each side wait when the other is the "
        "slower one, and which share of the learner's time are waits for batches of 40 MiB?"
    )
    settings = Settings(
        total_steps=300_000,
        num_envs=20,
        rollout_steps=50,
        minibatch_size=500,
        learning_rate=5e-4,
        max_grad_norm=40,
    )
    expected = Expected(lowest_return=1, highest_return=500, learns_after=300_000, learned_return=50)
    any_return = Expected(lowest_return=1, highest_return=500, learns_after=10**12, learned_return=0)
    peers = {RLLIB_NAME: rllib("impala", "IMPALA", steps=100_000, learned_return=30)}
    at_least_times = {RLLIB_NAME: 15, PPO: 1.3, ONE_PASS: 1.3}

    def __init__(self, place):
        super().__init__(place)
        self.metrics += (
            Metric(LEARNER_IDLE, "%", Better.LOWER, at_most=5),
            Metric(WORKERS_IDLE, "%", Better.LOWER, at_most=5),
            Metric(LOAD_WAIT, "% of grad time", Better.LOWER, at_most=2),
        )

    def arguments(self, settings: Settings) -> list[str | Path]:
        return [self.write("impala", {}, {"kernel": "off"})]

    def write(self, name: str, own: Mapping[str, Any], impala: Mapping[str, Any]) -> Path:
        its = self.settings
        top = {"algo": "impala", "env": its.env, "num_envs": its.num_envs, "rollout_steps": its.rollout_steps}
        top |= dict(own)
        section = {
            "workers": 2,
            "learning_rate": its.learning_rate,
            "learning_rate_schedule": "constant",
            "max_grad_norm": its.max_grad_norm,
            "gamma": its.gamma,
            "entropy_coef": its.entropy_coef,
            "value_coef": its.value_coef,
        } | dict(impala)
        path = self.place.scratch / f"{name}.yaml"
        lines = [f"{key}: {value}" for key, value in top.items()]
        lines += ["impala:", *(f"  {key}: {value}" for key, value in section.items())]
        path.write_text("\n".join(lines) + "\n" + its.policy_section())
        return path

    def training(
        self, config: Path, settings: Settings, means: tuple[str, ...] = (), **program: Any
    ) -> TandemTraining:
        expected = self.expected if settings is self.settings else self.any_return
        return TandemTraining(self.place, [config], settings, expected, means=means, **program)

    def contenders(self) -> list[Contender]:
        self.slow_learner = self.training(
            self.write("slow-learner", {}, {"kernel": "off", "passes": 8}), self.others(100_000), ("learner_idle",)
        )
        self.slow_workers = self.training(
            self.write("slow-workers", {"env": "UnevenCartPole-v1"}, {"kernel": "off"}),
            self.others(60_000),
            ("workers_idle",),
            program="uneven_ranks",
            environment={"UNEVEN": "slow:1:1"},  # ms that a step of a worker's environments takes besides
        )
        envs = 256  # of a worker
        steps = -(-BATCH_BYTES // (ROW_BYTES * envs))
        large = {"num_envs": 2 * envs, "rollout_steps": steps}
        self.large = self.training(
            self.write("large", large, {"passes": 8, "batches_per_update": 4}),
            self.others(8 * envs * steps, **large),
            ("learner_idle",),
            smoke_steps=2 * envs * steps,
        )
        ours = {
            PPO: self.ppo(),
            ONE_PASS: self.ppo("--set", "ppo.epochs=1"),
            FUSED: self.training(self.write("fused", {}, {}), self.settings),
        }
        chosen = super().contenders()
        chosen[0] = Contender("tandem", self.measure)
        return [*chosen, *(Contender(name, training.measure) for name, training in ours.items())]

    def others(self, total_steps: int, **changed: int) -> Settings:
        return Settings(**{"total_steps": total_steps, "minibatch_size": self.settings.minibatch_size} | changed)

    def ppo(self, *more: str) -> TandemTraining:
        arguments = [self.settings.write_config(self.place.scratch), "--set", "ppo.kernel=off", *more]
        return TandemTraining(self.place, arguments, self.settings, self.expected)

    def measure(self, size: Size) -> Sample:
        sample = self.tandem.measure(size)
        for metric, training, field in (
            (LEARNER_IDLE, self.slow_learner, "learner_idle"),
            (WORKERS_IDLE, self.slow_workers, "workers_idle"),
        ):
            sample.values[metric] = 100 * training.measure(size).values[field]
        idle = self.large.measure(size).values["learner_idle"]
        sample.values[LOAD_WAIT] = 100 * idle / (1 - idle)
        return sample

    def check(self, samples: Samples) -> None:
        """Sampling and learning at the same time, no two runs have the same numbers."""


BENCH = Impala
