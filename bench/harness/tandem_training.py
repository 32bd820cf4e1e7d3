"""`tandem train` as a contender: run, measured from outside, and its answer checked."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.model import Place, Sample, Size, WrongAnswer
from harness.process import run
from harness.training import Expected, Settings

SEED = 1
_RUNS = itertools.count()  # of this process: no two have the same folder


class NewLines:
    """The whole lines of a file that another process appends to, each once."""

    def __init__(self, path: Path):
        self._path = path
        self._at = 0

    def read(self) -> list[dict[str, Any]]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def first_line(lines: NewLines) -> bool:
    return bool(lines.read())


class SolvedLine:
    """The line after which the mean return of a full window of episodes has reached `threshold`."""

    def __init__(self, threshold: float, window: int = 100):
        self._threshold = threshold
        self._window = window

    def __call__(self, lines: NewLines) -> bool:
        return any(
            line["episodes"] >= self._window and line["episode_return_mean"] >= self._threshold for line in lines.read()
        )


def means_of(fields: Sequence[str], lines: list[dict[str, Any]]) -> dict[str, float]:
    later = lines[len(lines) // 4 :]
    return {field: statistics.fmean(line[field] for line in later) for field in fields}


class TandemTraining:
    """Its sample has env_steps_per_s, peak_rss_mb and watched_s: from the command to what `watch` waits for; and the
    `means` of fields of metrics.jsonl over its lines but for the first quarter, in which threads start and queues
    fill."""

    def __init__(
        self,
        place: Place,
        arguments: Sequence[str | Path],
        settings: Settings,
        expected: Expected,
        *,
        watch: Callable[[NewLines], bool] = first_line,
        means: Sequence[str] = (),
        program: str = "tandem",
        environment: Mapping[str, str] | None = None,
        smoke_steps: int | None = None,
    ):
        steps = settings.total_steps
        self._place = place
        self._arguments = arguments
        self._steps = {Size.FULL: steps, Size.SMOKE: min(steps, smoke_steps or settings.smoke_steps())}
        self._smoke_settings = settings.smoke_settings()
        self._update_steps = settings.update_steps()
        self._expected = expected
        self._watch = watch
        self._means = means
        self._program = place.programs / program
        self._environment = environment

    def measure(self, size: Size, seed: int = SEED) -> Sample:
        folder = self._place.scratch / f"tandem-{next(_RUNS)}"
        lines = NewLines(folder / "metrics.jsonl")
        steps = self._steps[size]
        command = [self._program, "train", *self._arguments, "--quiet"]
        command += ["--seed", seed, "--total-steps", steps, "--run-dir", folder]
        for setting in self._smoke_settings if size is Size.SMOKE else ():
            command += ["--set", setting]
        done = run(command, environment=self._environment, watch=lambda: self._watch(lines))
        summary = json.loads((folder / "summary.json").read_text())
        self._expected.check("tandem", steps, self._update_steps, summary)
        # The program's own account of its memory has to agree with the system's.
        if abs(summary["peak_rss_mb"] - done.peak_rss_mb) > 0.1 * done.peak_rss_mb:
            raise WrongAnswer(f"summary.json says {summary['peak_rss_mb']} MB, the system {done.peak_rss_mb:.1f} MB")
        facts = {
            key: summary[key]
            for key in ("env_steps", "episode_return_mean", "solved_at_env_steps", "state_sha256", "replicas")
        }
        return Sample(
            {
                "env_steps_per_s": summary["env_steps_per_s"],
                "watched_s": math.inf if done.watched_s is None else done.watched_s,
                "peak_rss_mb": done.peak_rss_mb,
            }
            | means_of(self._means, NewLines(folder / "metrics.jsonl").read()),
            facts | {"seed": seed, "wall_s": done.wall_s},
        )
