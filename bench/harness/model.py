"""What a bench is: a question, some contenders that answer it, and the numbers that say how well.

A bench is measured in rounds. In each round every contender has one turn, in the same order (A B A B ...), so that
whatever else the machine does falls on all of them alike; a result is the median over the rounds.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Size(enum.Enum):
    SMOKE = "smoke"  # as little work as shows that everything runs and answers are right
    FULL = "full"


class Better(enum.Enum):
    HIGHER = "higher"
    LOWER = "lower"


class WrongAnswer(Exception):
    """A contender did not do the work, or did another one. A fast wrong answer is no result."""


class Failed(Exception):
    """A contender ended with an error or not in time."""


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    better: Better
    at_most: float | None = None  # target: the first contender's median is not above this
    # target: better than that contender's, so many times
    at_least_times: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Sample:
    """What one turn of a contender gave. `facts` are recorded, not compared: returns, hashes, counts."""

    values: dict[str, float]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Contender:
    name: str
    measure: Callable[[Size], Sample]  # throws WrongAnswer or Failed
    version: str = ""


@dataclass(frozen=True)
class Place:
    """Where things lie that benches need."""

    root: Path  # of the checkout
    programs: Path  # build/release/bin
    peers: Callable[[str, str], Path]  # (environment, requirements file): its Python; throws Unavailable
    scratch: Path  # an empty folder, removed at the end


class Unavailable(Exception):
    """A peer is not there, or what a bench needs of the machine; says why."""


Samples = dict[str, list[Sample]]  # by contender, in the order of the rounds


class Bench:
    """One question. `contenders()` gives first the one that is judged (Tandem), then those it is compared with."""

    name = ""
    question = ""
    metrics: Sequence[Metric] = ()

    def __init__(self, place: Place):
        self.place = place
        self.missing: dict[str, str] = {}  # peers that are not there, or failed, and why
        self.peer_names: set[str] = set()  # contenders that are not ours

    def contenders(self) -> list[Contender]:
        """Throws Unavailable where the machine lacks what the whole bench needs: it is reported as not run."""
        raise NotImplementedError

    def with_peers(self, chosen: list[Contender], peers: dict[str, Callable[[], Contender]]) -> list[Contender]:
        """`chosen`, then the peers that can be had; why others cannot is kept in `missing`. Makers throw
        Unavailable."""
        for name, make in peers.items():
            try:
                chosen.append(make())
                self.peer_names.add(name)
            except Unavailable as why:
                self.missing[name] = str(why)
        return chosen

    def prepare(self, contenders: list[Contender]) -> None:
        """Chooses what needs measuring first, such as a peer's best number of threads. Not called for a smoke run."""

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        """A turn of each. A peer that fails is `missing` from then on; its failure ends nobody else's measurement."""
        samples = {}
        for contender in [each for each in contenders if each.name not in self.missing]:
            try:
                samples[contender.name] = contender.measure(size)
            except (Failed, WrongAnswer) as failure:
                if contender.name not in self.peer_names:
                    raise
                self.missing[contender.name] = f"{type(failure).__name__}: {failure}"
        return samples

    def check(self, samples: Samples) -> None:
        """Throws WrongAnswer when the samples contradict each other: other results from the same seed, say."""

    def metric(self, name: str) -> Metric:
        return next(metric for metric in self.metrics if metric.name == name)


@dataclass(frozen=True)
class Summary:
    """One metric of one contender."""

    median: float
    low: float
    high: float
    values: tuple[float, ...]

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        return Summary(statistics.median(values), min(values), max(values), tuple(values))

    @property
    def spread(self) -> float:
        """From the lowest to the highest, as a share of the median."""
        return (self.high - self.low) / abs(self.median) if self.median else 0.0


def times_better(metric: Metric, ours: float, other: float) -> float:
    """Above 1 where ours is better, whichever direction that is; infinite where the other never got there. Zero where
    it cannot be said."""
    above, below = (ours, other) if metric.better is Better.HIGHER else (other, ours)
    return above / below if below and below < float("inf") else 0.0
