"""Benches within one process: a program of build/release/bin that prints one line of JSON a case and contender.

A line has "case", "contender", "value" and "unit"; "p99", "samples" and "bus_gb_s" are recorded with it. Peers' scripts
that measure the same cases print such lines too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from harness.model import Bench, Better, Contender, Metric, Sample, Size, WrongAnswer
from harness.process import run


class CompiledBench(Bench):
    """The program checks its answers before it measures. The first contender's cases become the metrics, in order."""

    program = ""
    unit = ""
    better = Better.HIGHER
    targets: Mapping[str, Mapping[str, float]] = {}  # by case: how many times better than which contender
    limits: Mapping[str, float] = {}  # by case: what the first contender's number is at most
    inside: tuple[str, ...] = ("tandem",)  # contenders that the program itself measures

    def contenders(self) -> list[Contender]:
        return [Contender(name, _within_the_program) for name in self.inside]

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        arguments = ["--smoke"] if size is Size.SMOKE else []
        samples = read_lines(run([self.place.programs / self.program, *arguments]).stdout, self.unit)
        cases = samples[self.inside[0]].values
        self.metrics = tuple(
            Metric(case, self.unit, self.better, self.limits.get(case), self.targets.get(case, {})) for case in cases
        )
        outside = [contender for contender in contenders if contender.name not in self.inside]
        return samples | {contender.name: contender.measure(size) for contender in outside}


def read_lines(text: str, unit: str) -> dict[str, Sample]:
    """A sample a contender. Throws WrongAnswer when there is none, or one in another unit."""
    samples: dict[str, Sample] = {}
    for line in map(json.loads, text.splitlines()):
        if line["unit"] != unit:
            raise WrongAnswer(f"a number in {line['unit']} where {unit} is expected")
        sample = samples.setdefault(line["contender"], Sample({}))
        sample.values[line["case"]] = line["value"]
        sample.facts[line["case"]] = {key: line[key] for key in ("p99", "samples", "bus_gb_s") if key in line}
    if not samples:
        raise WrongAnswer("the program printed no numbers")
    return samples


def _within_the_program(size: Size) -> Sample:
    raise NotImplementedError("it takes its turn within the process of the bench")
