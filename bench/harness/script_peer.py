"""A peer's training script of bench/peers as a contender."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence

from harness.machine import cores
from harness.model import Failed, Place, Sample, Size
from harness.process import Finished, run
from harness.tandem_training import SEED
from harness.training import Expected, Settings


LATE = 4  # times the steps asked for, that a peer may make at most


class ScriptPeer:
    """Runs `script` in the environment of the same pins. Making one throws Unavailable when that cannot be had.

    Its sample has env_steps_per_s, first_update_s, solved_s (infinite when never) and peak_rss_mb.
    """

    def __init__(
        self,
        place: Place,
        name: str,
        environment: str,
        script: str,
        settings: Settings,
        expected: Expected,
        steps: int | None = None,
        arguments: Sequence[str] = (),
    ):
        self.name = name
        self._python = place.peers(environment, f"{environment}-requirements.txt")
        self._script = place.root / "bench" / "peers" / script
        self._scratch = place.scratch
        self._settings = settings
        self._steps = steps or settings.total_steps
        self._expected = expected
        self._arguments = arguments
        self._threads = 1
        self._calibration: dict[int, float] = {}

    def version(self, packages: Sequence[str]) -> str:
        code = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
        versions = run([self._python, "-c", code, *packages]).stdout.split()
        return ", ".join(f"{package} {version}" for package, version in zip(packages, versions))

    def choose_threads(self) -> None:
        """The fastest of 1, 2, 4 ... up to the machine's cores, in a short run each."""
        count = 1
        while count <= cores():
            result, _ = self._train(2 * self._settings.smoke_steps() + self._steps // 10, SEED, count)
            self._calibration[count] = result["env_steps_per_s"]
            count *= 2
        self._threads = max(self._calibration, key=lambda threads: self._calibration[threads])
        print(f"bench: {self.name} runs with {self._threads} threads: {self._calibration}", file=sys.stderr, flush=True)

    def measure(self, size: Size, seed: int = SEED) -> Sample:
        its = self._settings
        steps = self._steps if size is Size.FULL else min(self._steps, its.smoke_steps())
        result, done = self._train(steps, seed, self._threads)
        solved_at = result["solved_at"]
        asked = result["env_steps"] if "--until-solved" in self._arguments and solved_at is not None else steps
        # Some tell of their steps once a second only, so the last may be late.
        self._expected.check(self.name, asked, LATE * max(asked, its.update_steps()), result)
        return Sample(
            {
                "env_steps_per_s": result["env_steps_per_s"],
                "first_update_s": result["first_update_at"] - done.started_at,
                "solved_s": math.inf if solved_at is None else solved_at - done.started_at,
                "peak_rss_mb": done.peak_rss_mb,
            },
            {
                "env_steps": result["env_steps"],
                "episode_return_mean": result["episode_return_mean"],
                "threads": result["threads"],
                "versions": result["versions"],
                "calibration": self._calibration,
                "seed": seed,
                "wall_s": done.wall_s,
            },
        )

    def _train(self, steps: int, seed: int, threads: int) -> tuple[dict, Finished]:
        command = [self._python, self._script, "--settings", self._settings.to_json(), "--steps", steps, "--seed", seed]
        # Some write folders of their own, wherever they are.
        done = run(
            [*command, *self._arguments], environment={"OMP_NUM_THREADS": str(threads)}, folder=self._scratch
        )
        try:
            return json.loads(done.stdout.splitlines()[-1]), done
        except (IndexError, json.JSONDecodeError) as error:
            raise Failed(f"{self.name}: the last line of its output is no result: {done.stdout[-200:]!r}") from error
