"""Runs benches: answers first, then the rounds."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass, field

from harness.model import Bench, Failed, Metric, Samples, Size, Summary, Unavailable, WrongAnswer, times_better


@dataclass
class Result:
    """What is known of one bench at the end. `failure`: why there are no numbers. `not_run`: what the machine lacks for
    it."""

    name: str
    question: str
    size: Size = Size.FULL
    metrics: list[Metric] = field(default_factory=list)
    contenders: list[str] = field(default_factory=list)  # the one that is judged first
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    samples: Samples = field(default_factory=dict)
    failure: str | None = None
    not_run: str | None = None

    def summary(self, contender: str, metric: Metric) -> Summary | None:
        values = [
            sample.values[metric.name] for sample in self.samples.get(contender, []) if metric.name in sample.values
        ]
        return Summary.of(values) if values else None

    def ratio(self, metric: Metric, other: str) -> float | None:
        if not self.contenders:  # it failed before it had any
            return None
        ours, theirs = self.summary(self.contenders[0], metric), self.summary(other, metric)
        return times_better(metric, ours.median, theirs.median) if ours and theirs else None

    def meets_limit(self, metric: Metric) -> bool | None:
        """Whether the first contender's median is at most what the metric asks; None without a limit or in a smoke
        run."""
        ours = self.summary(self.contenders[0], metric) if self.contenders else None
        if self.size is Size.SMOKE or metric.at_most is None or not ours:
            return None
        return ours.median <= metric.at_most

    def meets_times(self, metric: Metric, other: str) -> bool | None:
        """The same of the target against `other`; None also when that one is not there."""
        wanted, ratio = metric.at_least_times.get(other), self.ratio(metric, other)
        if self.size is Size.SMOKE or wanted is None or ratio is None:
            return None
        return ratio >= wanted

    def met(self, metric: Metric) -> bool | None:
        """Whether all targets that can be judged are reached; None when none can."""
        verdicts = [self.meets_limit(metric), *(self.meets_times(metric, other) for other in metric.at_least_times)]
        judged = [verdict for verdict in verdicts if verdict is not None]
        return all(judged) if judged else None


def measure(bench: Bench, size: Size, repeats: int) -> Result:
    """A smoke round checks the answers and warms up; `repeats` full rounds follow unless `size` is SMOKE."""
    result = Result(bench.name, bench.question, size)
    try:
        try:
            contenders = bench.contenders()
        except Unavailable as why:
            _say(f"{bench.name}: not run: {why}")
            result.not_run = str(why)
            return result
        result.contenders = [contender.name for contender in contenders]
        result.versions = {contender.name: contender.version for contender in contenders if contender.version}
        _say(f"{bench.name}: are the answers of {', '.join(result.contenders)} right?")
        rounds = [bench.round(contenders, Size.SMOKE)]
        if size is Size.FULL:
            bench.prepare(contenders)
            rounds = []
            for number in range(repeats):
                _say(f"{bench.name}: round {number + 1} of {repeats}")
                rounds.append(bench.round(contenders, Size.FULL))
        result.contenders = [name for name in result.contenders if name not in bench.missing]
        result.samples = {name: [samples[name] for samples in rounds] for name in result.contenders}
        bench.check(result.samples)
    except (WrongAnswer, Failed) as failure:
        result.failure = f"{type(failure).__name__}: {failure}"
    except Exception as defect:  # of the bench; the others, which may take an hour, go on
        traceback.print_exc()
        result.failure = f"a defect of this bench, {type(defect).__name__}: {defect}"
    result.missing = dict(bench.missing)
    result.metrics = list(bench.metrics)
    return result


def _say(text: str) -> None:
    print("bench: " + text, file=sys.stderr, flush=True)
