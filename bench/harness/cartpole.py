"""The two programs that train CartPole-v1 with PPO and CleanRL's settings, each measured from outside and checked."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from harness.machine import cores
from harness.model import Place, Sample, Size, WrongAnswer
from harness.process import Finished, run

UPDATE_STEPS = 8 * 128  # environment steps from one update to the next
SMOKE_STEPS = 4 * UPDATE_STEPS
CALIBRATION_STEPS = 40 * UPDATE_STEPS
SEED = 1
# Without learning a pole stays up for about 22 steps; after so many environment steps, far longer.
LEARNS_AFTER_STEPS, LEARNED_RETURN = 300_000, 150.0


def expected_steps(asked: int) -> int:
    """Whole updates that reach `asked`."""
    return math.ceil(asked / UPDATE_STEPS) * UPDATE_STEPS


def check_training(who: str, steps: int, done: dict) -> None:
    if done["env_steps"] != expected_steps(steps):
        raise WrongAnswer(f"{who} made {done['env_steps']} environment steps instead of {expected_steps(steps)}")
    mean = done["episode_return_mean"]
    if mean is None or not math.isfinite(mean) or not 0 < mean <= 500:
        raise WrongAnswer(f"{who} has a mean return of {mean}; it lies within 0 and 500")
    if steps >= LEARNS_AFTER_STEPS and mean < LEARNED_RETURN:
        raise WrongAnswer(f"{who} did not learn: its mean return is {mean:.1f} after {steps} steps")


class TandemPpo:
    def __init__(self, place: Place, steps: int):
        self._place = place
        self._steps = steps
        self._runs = 0

    def measure(self, size: Size) -> Sample:
        steps = self._steps if size is Size.FULL else min(self._steps, SMOKE_STEPS)
        self._runs += 1
        folder = self._place.scratch / f"tandem-{steps}-{id(self)}-{self._runs}"
        metrics = folder / "metrics.jsonl"
        done = run(
            [
                self._place.programs / "tandem",
                "train",
                self._place.root / "configs" / "cartpole-cleanrl.yaml",
                "--seed",
                SEED,
                "--total-steps",
                steps,
                "--run-dir",
                folder,
                "--quiet",
            ],
            watch=lambda: has_line(metrics),
        )
        summary = json.loads((folder / "summary.json").read_text())
        check_training("tandem", steps, summary)
        if done.watched_s is None:
            raise WrongAnswer(f"tandem wrote no line to {metrics}")
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
                "first_update_s": done.watched_s,
                "peak_rss_mb": done.peak_rss_mb,
            },
            facts | {"wall_s": done.wall_s},
        )


class Sb3Ppo:
    """Throws Unavailable when its environment cannot be had."""

    def __init__(self, place: Place, steps: int):
        self._python = place.peers("sb3", "sb3-requirements.txt")
        self._script = place.root / "bench" / "peers" / "sb3_ppo.py"
        self._steps = steps
        self._threads = 1
        self._calibration: dict[int, float] = {}

    def version(self) -> str:
        packages = ("stable-baselines3", "torch", "gymnasium")
        code = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
        versions = run([self._python, "-c", code, *packages]).stdout.split()
        return ", ".join(f"{package} {version}" for package, version in zip(packages, versions))

    def choose_threads(self) -> None:
        """The fastest of 1, 2, 4 ... up to the machine's cores, in a short run each."""
        count = 1
        while count <= cores():
            self._calibration[count] = self._train(CALIBRATION_STEPS, count)[0]["env_steps_per_s"]
            count *= 2
        self._threads = max(self._calibration, key=lambda threads: self._calibration[threads])
        print(
            f"bench: stable-baselines3 runs with {self._threads} threads: {self._calibration}",
            file=sys.stderr,
            flush=True,
        )

    def measure(self, size: Size) -> Sample:
        steps = self._steps if size is Size.FULL else min(self._steps, SMOKE_STEPS)
        result, done = self._train(steps, self._threads)
        check_training("stable-baselines3", steps, result)
        return Sample(
            {
                "env_steps_per_s": result["env_steps_per_s"],
                "first_update_s": result["first_update_at"] - done.started_at,
                "peak_rss_mb": done.peak_rss_mb,
            },
            {
                "env_steps": result["env_steps"],
                "episode_return_mean": result["episode_return_mean"],
                "threads": result["threads"],
                "calibration": self._calibration,
                "wall_s": done.wall_s,
            },
        )

    def _train(self, steps: int, threads: int) -> tuple[dict, Finished]:
        done = run(
            [self._python, self._script, "--steps", steps, "--seed", SEED],
            environment={"OMP_NUM_THREADS": str(threads)},
        )
        return json.loads(done.stdout.splitlines()[-1]), done


def has_line(path: Path) -> bool:
    """Whether the file holds a whole line."""
    try:
        with path.open("rb") as file:
            return b"\n" in file.read(1 << 16)
    except FileNotFoundError:
        return False
