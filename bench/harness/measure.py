"""Runs benches: answers first, then the rounds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from harness.model import Bench, Failed, Metric, Samples, Size, Summary, WrongAnswer, times_better


@dataclass
class Result:
    """What is known of one bench at the end. `failure`: why there are no numbers."""

    name: str
    question: str
    size: Size = Size.FULL
    metrics: list[Metric] = field(default_factory=list)
    contenders: list[str] = field(default_factory=list)  # the one that is judged first
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    samples: Samples = field(default_factory=dict)
    failure: str | None = None

    def summary(self, contender: str, metric: Metric) -> Summary | None:
        values = [
            sample.values[metric.name] for sample in self.samples.get(contender, []) if metric.name in sample.values
        ]
        return Summary.of(values) if values else None

    def ratio(self, metric: Metric, other: str) -> float | None:
        ours, theirs = self.summary(self.contenders[0], metric), self.summary(other, metric)
        return times_better(metric, ours.median, theirs.median) if ours and theirs else None

    def met(self, metric: Metric) -> bool | None:
        """Whether the metric's targets are reached; None without any, without a peer, and in a smoke run."""
        if self.size is Size.SMOKE:
            return None
        verdicts = []
        ours = self.summary(self.contenders[0], metric) if self.contenders else None
        if metric.at_most is not None and ours:
            verdicts.append(ours.median <= metric.at_most)
        if metric.at_least_times is not None:
            ratios = [ratio for other in self.contenders[1:] if (ratio := self.ratio(metric, other)) is not None]
            verdicts += [ratio >= metric.at_least_times for ratio in ratios]
        return all(verdicts) if verdicts else None


def measure(bench: Bench, size: Size, repeats: int) -> Result:
    """A smoke round checks the answers and warms up; `repeats` full rounds follow unless `size` is SMOKE."""
    result = Result(bench.name, bench.question, size)
    try:
        contenders = bench.contenders()
        result.contenders = [contender.name for contender in contenders]
        result.versions = {contender.name: contender.version for contender in contenders if contender.version}
        rounds = [bench.round(contenders, Size.SMOKE)]
        if size is Size.FULL:
            bench.prepare(contenders)
            rounds = []
            for number in range(repeats):
                _say(f"{bench.name}: round {number + 1} of {repeats}")
                rounds.append(bench.round(contenders, Size.FULL))
        result.samples = {name: [samples[name] for samples in rounds] for name in result.contenders}
        bench.check(result.samples)
    except (WrongAnswer, Failed) as failure:
        result.failure = f"{type(failure).__name__}: {failure}"
    result.missing = dict(bench.missing)
    result.metrics = list(bench.metrics)
    return result


def _say(text: str) -> None:
    print("bench: " + text, file=sys.stderr, flush=True)
