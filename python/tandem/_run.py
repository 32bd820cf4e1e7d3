"""A run folder: what a training was, did and learned."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class NamedCode:
    """What a user has named that runs with his rights: the Python of an environment, and plugins. What a record alone
    names is taken under the conditions of recorded code (tandem/app/train/recorded_plugins.h)."""

    python: "str | None" = None
    plugins: "tuple[str, ...]" = ()

    def settings(self) -> "list[tuple[str, str, Any]]":
        """For a resume."""
        place = "what the training was given"
        its: "list[tuple[str, str, Any]]" = [] if self.python is None else [("python", place, self.python)]
        return [*its, ("plugins", place, list(self.plugins))] if self.plugins else its


class Run:
    """A run in its folder. Everything is read when it is asked for.

    Of a run that this process has trained, load() and resume() run the code again that it ran then.
    """

    def __init__(self, folder: "str | os.PathLike[str]", *, _named: NamedCode = NamedCode()):
        self.folder = Path(folder)
        self._named = _named

    def __reduce__(self) -> "tuple[Any, ...]":
        return Run, (self.folder,)  # another process has not named any code

    def __repr__(self) -> str:
        return f"tandem.Run({str(self.folder)!r})"

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json: how the run ended, and its last numbers."""
        its: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return its

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """metrics.jsonl by column: `pandas.DataFrame(run.metrics)`. NaN stands where a line has no number."""
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return columns_of([json.loads(line) for line in lines])

    def _repr_png_(self) -> "bytes | None":
        """What a notebook shows of it: the curve."""
        picture = self.folder / "curve.png"
        return picture.read_bytes() if picture.exists() else None

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text()


def columns_of(lines: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    names = dict.fromkeys(name for line in lines for name in line)
    return {name: column_of([line.get(name) for line in lines]) for name in names}


def column_of(values: list[Any]) -> np.ndarray:
    if any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.int64)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
