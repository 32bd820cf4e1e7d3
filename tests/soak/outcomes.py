"""The file of outcomes, a line of JSON each: a soak that was interrupted goes on behind its last line.

A line belongs to the program and the plans whose hash it has: with others, everything is tried anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from modes import Programs
from plan import plan


def identity(programs: Programs) -> str:
    """Of the program, and of what a number stands for with all the programs that there are."""
    plans = "\n".join(plan(number, programs).text for number in range(200))
    return hashlib.sha256(programs.tandem.read_bytes() + plans.encode()).hexdigest()[:16]


class Outcomes:
    def __init__(self, file: Path, program: str):
        self._file = file
        self._program = program
        self.states: dict[str, str] = {}
        self.faults: dict[int, dict] = {}
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text() if file.exists() else ""
        for line in text.splitlines():
            try:
                self._take(json.loads(line))
            except ValueError:
                continue  # torn, by a soak that was killed
        if text and not text.endswith("\n"):
            with file.open("a") as out:
                out.write("\n")

    def _take(self, outcome: dict) -> None:
        if outcome.get("program") != self._program:
            return
        if "reference" in outcome:
            self.states[outcome["reference"]] = outcome["state"]
        else:
            self.faults[outcome["fault"]] = outcome

    def add(self, outcome: dict) -> None:
        outcome = {"program": self._program} | outcome
        with self._file.open("a") as out:
            out.write(json.dumps(outcome) + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._take(outcome)

    @property
    def injected(self) -> int:
        """Faults that found a run to disturb."""
        return sum(not outcome["late"] for outcome in self.faults.values())
