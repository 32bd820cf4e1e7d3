"""How DD-PPO scales to more ranks than there are cores: the efficiencies of `tandem simulate-scale`."""

from __future__ import annotations

import json
from dataclasses import dataclass

from harness.model import Bench, Better, Contender, Metric, Sample, Size, WrongAnswer
from harness.process import run

PREEMPT, WAIT_ALL, TIME_OPTIMAL = "preempt", "wait_all", "time_optimal"
POLICIES = (PREEMPT, WAIT_ALL, TIME_OPTIMAL)


@dataclass(frozen=True)
class Shape:
    """What an update consists of on each rank, in milliseconds, and on how many ranks it is measured."""

    name: str
    ranks: tuple[int, ...]
    steps: int = 128
    step: str = "1"
    minibatches: int = 16
    minibatch: float = 10
    slow_rank: int = 1

    def arguments(self) -> list:
        words = ["--steps", self.steps, "--step", self.step, "--slow-rank", self.slow_rank]
        return [*words, "--minibatches", self.minibatches, "--minibatch", self.minibatch]

    def most_samples_per_s(self) -> float:
        """Of a rank that nobody keeps waiting, with steps that all take as long."""
        return 1e3 * self.steps / (self.steps * float(self.step) + self.minibatches * self.minibatch)


EVEN = Shape("no tail", (16, 64))
SLOW = Shape("one rank 4x slower", (64,), slow_rank=4)
PARETO = Shape("Pareto 2.5", (64,), step="pareto:1:2.5")
# Single steps of 64 ranks outlast whole rollouts, and nobody ends a step: the model has 0.38 for preempt.
HEAVY = Shape("Pareto 1.5", (64,), step="pareto:1:1.5")
SEED = Shape("100 short minibatches", (16, 64), steps=100, minibatches=100, minibatch=0.5)
SHAPES = (EVEN, SLOW, PARETO, HEAVY, SEED)
TINY = {"steps": 8, "minibatches": 2, "minibatch": 1}


def efficiency(shape: Shape, ranks: int) -> str:
    return f"efficiency of {ranks} ranks, {shape.name}"


def lost(policy: str, shape: Shape, ranks: int) -> str:
    return f"lost by {policy} of {ranks} ranks, {shape.name}"


JUDGED = {(WAIT_ALL, EVEN, 16): 5, (WAIT_ALL, EVEN, 64): 15, (PREEMPT, SLOW, 64): 15, (PREEMPT, PARETO, 64): 15}


class SimulateScale(Bench):
    name = "simulate_scale"
    question = (
        "What share of their samples/s do ranks keep when they are many: with 128 steps of 1 ms and 16 minibatches of "
        "10 ms an update, even, with one slow rank, with heavy tails; and with 100 steps and 100 minibatches of 0.5 ms?"
    )
    metrics = (
        *(Metric(efficiency(shape, ranks), "share", Better.HIGHER) for shape in SHAPES for ranks in shape.ranks),
        *(Metric(lost(*case), "%", Better.LOWER, at_most=most) for case, most in JUDGED.items()),
    )

    def contenders(self) -> list[Contender]:
        return [Contender(name, _measured_with_others) for name in POLICIES]

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        """One rank and many under every policy, for each of the shapes."""
        samples = {contender.name: Sample({}) for contender in contenders}
        for shape in SHAPES:
            found = self._simulate(shape, size)
            for ranks, started in zip(shape.ranks, found[1:], strict=True):
                for name, sample in samples.items():
                    sample.values[efficiency(shape, ranks)] = started[name]["efficiency"]
        for policy, shape, ranks in JUDGED:
            share = samples[policy].values[efficiency(shape, ranks)]
            samples[PREEMPT].values[lost(policy, shape, ranks)] = 100 * (1 - share)
        return samples

    def _simulate(self, shape: Shape, size: Size) -> list[dict]:
        """What was measured on one rank, then on each of the shape's numbers of ranks."""
        numbers = (1, *shape.ranks)
        if size is Size.SMOKE:
            shape = Shape(**(vars(shape) | TINY))
            numbers = (1, 2, 3)[: len(numbers)]
        command = [self.place.programs / "tandem", "simulate-scale", "--json", "--model-ranks", 128]
        command += ["--ranks", ",".join(map(str, numbers)), *shape.arguments()]
        command += ["--updates", 5 if size is Size.FULL else 1]
        measured = json.loads(run(command).stdout)["measured"]
        if [point["ranks"] for point in measured] != list(numbers):
            raise WrongAnswer(f"simulate-scale measured {measured}, and was asked for {numbers} ranks")
        for point in measured if shape.step == "1" else ():
            if point[WAIT_ALL]["samples_per_s"] > point["ranks"] * shape.most_samples_per_s():
                raise WrongAnswer(f"{shape.name}: ranks slept less than they were asked to: {point}")
        return measured


def _measured_with_others(size: Size) -> Sample:
    raise NotImplementedError("one run of the program measures all policies")


BENCH = SimulateScale
