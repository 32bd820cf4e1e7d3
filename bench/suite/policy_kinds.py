"""PPO with each kind of policy, and IMPALA and APPO with one that remembers: by fused kernels where there are some, and
by tensor operations and autograd."""

from __future__ import annotations

import json
from dataclasses import dataclass

from harness.model import Bench, Better, Contender, Metric, Place, Sample, Size, WrongAnswer
from harness.process import run

KERNELS, AUTOGRAD = "tandem", "by autograd"
SMOKE_STEPS = 2_048
SAMPLES = ("num_envs=8", "rollout_steps=128")
PPO = (*SAMPLES, "devices=cpu:2", "shards=2", "ppo.epochs=4", "ppo.minibatches=4", "ppo.minibatch_size=none")
IMPALA = (*SAMPLES, "devices=cpu:1", "shards=1", "impala.workers=1")  # a worker and a learner: two cores
LSTM = ("policy.hidden=[64]", "policy.recurrent=lstm", "policy.recurrent_size=64", "policy.max_seq_len=32")


@dataclass(frozen=True)
class Kind:
    """`steps`: environment steps of a run, a second or more. `times`: of autograd's rate that are asked for."""

    name: str
    env: str
    steps: int
    settings: tuple[str, ...] = ()
    algo: str = "ppo"
    times: float = 2

    @property
    def section(self) -> str:
        return "ppo" if self.algo == "ppo" else "impala"

    @property
    def all_settings(self) -> tuple[str, ...]:
        return (*(PPO if self.algo == "ppo" else IMPALA), *self.settings)


KINDS = (
    Kind("choices", "CartPole-v1", 400_000),
    Kind("normal", "Pendulum-v1", 400_000),
    Kind("squashed normal", "Pendulum-v1", 100_000, ("policy.head=squashed_normal", "ppo.entropy_coef=0.001")),
    Kind("state-dependent noise", "Pendulum-v1", 100_000, ("policy.head=state_dependent_noise",)),
    Kind("dictionary", "BitFlipping-v0", 200_000),
    Kind("embedded choices", "RepeatPrevious-v0", 200_000, ("policy.recurrent=none",)),
    Kind("masks, two agents", "KuhnPoker-v0", 200_000),
    Kind("four agents", "MultiAgentCartPole-v0", 100_000),
    Kind("IMPALA, LSTM", "MaskedCartPole-v1", 50_000, LSTM, algo="impala", times=8),
    Kind("APPO, LSTM", "MaskedCartPole-v1", 50_000, LSTM, algo="appo", times=8),
)


class PolicyKinds(Bench):
    name = "policy_kinds"
    question = (
        "How many environment steps per second does PPO make on two replicas with each kind of policy (8 environments, "
        "128 steps, 4 passes of 4 minibatches), and IMPALA and APPO, a worker and a learner, with an LSTM of 64 units, "
        "by fused kernels and by tensor operations and autograd?"
    )

    def __init__(self, place: Place):
        super().__init__(place)
        self.metrics = tuple(
            Metric(kind.name, "steps/s", Better.HIGHER, at_least_times={AUTOGRAD: kind.times}) for kind in KINDS
        )
        self._runs = 0

    def contenders(self) -> list[Contender]:
        return [
            Contender(KERNELS, lambda size: self._train(size, "auto")),
            Contender(AUTOGRAD, lambda size: self._train(size, "off")),
        ]

    def _train(self, size: Size, kernel: str) -> Sample:
        values, facts = {}, {}
        for kind in KINDS:
            self._runs += 1
            folder = self.place.scratch / f"kind-{self._runs}"
            steps = SMOKE_STEPS if size is Size.SMOKE else kind.steps
            command = [self.place.programs / "tandem", "train", "--algo", kind.algo, "--env", kind.env, "--quiet"]
            command += ["--seed", 1, "--total-steps", steps, "--run-dir", folder]
            for setting in (*kind.all_settings, f"{kind.section}.kernel={kernel}"):
                command += ["--set", setting]
            run(command)
            summary = json.loads((folder / "summary.json").read_text())
            log = (folder / "log.txt").read_text()
            if ("computed by fused kernels" in log) != (kernel == "auto"):
                raise WrongAnswer(
                    f"{kind.name}: {kind.section}.kernel is {kernel}, and the log says otherwise: {folder / 'log.txt'}"
                )
            if summary["env_steps"] < steps:
                raise WrongAnswer(f"{kind.name}: {summary['env_steps']} of {steps} steps were made")
            values[kind.name] = summary["env_steps_per_s"]
            if kind.algo == "ppo":  # with two threads at different work, no two runs have the same numbers
                facts[kind.name] = summary["state_sha256"]
        return Sample(values, facts)

    def check(self, samples) -> None:
        for name, rounds in samples.items():
            if len({json.dumps(sample.facts, sort_keys=True) for sample in rounds}) > 1:
                raise WrongAnswer(f"{name}: the same seed ended in different states")


BENCH = PolicyKinds
