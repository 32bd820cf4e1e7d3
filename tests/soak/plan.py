"""What fault number N is: the mode, the kind, the moment. The same for the same number and the same programs."""

from __future__ import annotations

import random
from dataclasses import dataclass

import python_modes
from kinds import KINDS, Kind
from modes import Mode, Programs, available

START_S = 1.2  # of a run, until its first update on a busy machine


@dataclass(frozen=True)
class Moment:
    """`delay_s` after the update, or after the start."""

    update: int
    delay_s: float

    def __str__(self) -> str:
        return f"{self.delay_s * 1000:.0f} ms after " + (f"update {self.update}" if self.update else "the start")


@dataclass(frozen=True)
class Plan:
    number: int
    mode: Mode
    kind: Kind
    moment: Moment
    limits: dict[int, int]
    closed: tuple[int, ...]
    variables: dict[str, str]
    again: bool  # the resumed run is killed, too

    @property
    def text(self) -> str:
        given = (self.limits, self.closed, sorted(self.variables.items()), self.again)
        return f"{self.number} {self.mode.name} {self.mode.recipe.arguments} {self.kind.name} {self.moment} {given}"

    @property
    def dice(self) -> random.Random:
        return random.Random(f"what happens in {self.number}")


def modes_of(programs: Programs) -> tuple[Mode, ...]:
    return python_modes.PYTHON_MODES if programs.python else available(programs)


def plan(number: int, programs: Programs) -> Plan:
    dice = random.Random(f"fault {number}")
    modes = modes_of(programs)
    mode = modes[number % len(modes)]
    kinds = [kind for kind in (python_modes.PYTHON_KINDS if mode.recipe.python else KINDS) if kind.applies(mode)]
    kind = dice.choices(kinds, [kind.weight for kind in kinds])[0]
    return Plan(
        number=number,
        mode=python_modes.patient(mode) if kind.floods else mode,
        kind=kind,
        moment=_moment(mode, kind, dice),
        limits={kind.limit: int(_uniform_in_log(dice, *kind.most))} if kind.limit is not None else {},
        closed=_closed(dice) if kind.name == "closed streams" else (),
        variables=_variables(mode, kind, dice),
        again=dice.random() < 0.2,
    )


def _moment(mode: Mode, kind: Kind, dice: random.Random) -> Moment:
    if mode.example:
        return Moment(0, dice.uniform(0.2 if not kind.once_begun else START_S, 2.5))
    if not kind.once_begun and dice.random() < 0.3:
        return Moment(0, dice.uniform(0, START_S))
    last = mode.recipe.updates
    update = dice.randint(last - 4, last) if dice.random() < 0.15 else dice.randint(1, last)
    return Moment(update, dice.uniform(0, 0.05))


def _uniform_in_log(dice: random.Random, least: int, most: int) -> float:
    return least * (most / least) ** dice.random()


def _closed(dice: random.Random) -> tuple[int, ...]:
    return tuple(sorted(dice.sample((0, 1, 2), dice.randint(1, 3))))


def _variables(mode: Mode, kind: Kind, dice: random.Random) -> dict[str, str]:
    if mode.recipe.python:
        return python_modes.variables(kind, dice) if kind.misdeed else {}
    if kind.misdeed:
        return {"BAD": kind.misdeed, "BAD_RANK": str(dice.randrange(mode.ranks))} if mode.ranks > 1 else {
            "BAD": kind.misdeed}
    if kind.points:
        passage = 1 + int(kind.passages * dice.random() ** 2)
        return {"TANDEM_FAULT": f"{dice.choice(kind.points)}:{passage}:{dice.choice(kind.acts)}"}
    return {}
