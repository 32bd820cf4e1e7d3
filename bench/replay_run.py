#!/usr/bin/env python3
"""What does a replay of a million steps cost a run: how much memory, and how long do checkpoints stop it?

    bench/replay_run.py [--rows 1000000] [--env HalfCheetah-v5] [--build build/release] [--sb3 PYTHON]

Trains SAC twice: with a replay of 1,000 rows, and with one that is full of --rows, whose checkpoints are written when
it is half full, when it is full, and a little later, while the run learns. Prints the peaks of resident memory and
their difference, the longest stop for a checkpoint, and what each checkpoint wrote. Ends with 1 where the difference
is above 250 MB or a stop above 50 ms. With --sb3, whose Python has stable-baselines3, the same rows are saved by its
save_replay_buffer(), for comparison.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_MB, MOST_STOP_MS = 250.0, 50.0
STEPS_OF_AN_UPDATE = 1000
LEARNED_UPDATES = 4  # after the replay is full

SB3 = """
import os, sys, tempfile, time
import gymnasium, numpy
from stable_baselines3 import SAC
rows = int(sys.argv[2])
model = SAC("MlpPolicy", sys.argv[1], buffer_size=rows, device="cpu")
replay = model.replay_buffer
for name in ("observations", "next_observations", "actions", "rewards"):
    array = getattr(replay, name)
    array[:] = numpy.random.standard_normal(array.shape).astype(array.dtype)
replay.pos, replay.full = 0, True
with tempfile.TemporaryDirectory() as folder:
    begin = time.perf_counter()
    model.save_replay_buffer(folder + "/replay")
    milliseconds = 1e3 * (time.perf_counter() - begin)
    print(milliseconds, sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)))
"""


def train(build: Path, folder: Path, env: str, rows: int, steps: int, learns_at: int, every: int) -> dict:
    """The summary of a run with a replay of so many rows."""
    command = [build / "bin" / "tandem", "train", "--algo", "sac", "--env", env, "--quiet", "--profile"]
    command += ["--total-steps", steps, "--rollout-steps", STEPS_OF_AN_UPDATE, "--run-dir", folder]
    command += ["--devices", "cpu:1"]
    settings = {"num_envs": 1, "sac.replay_size": rows, "sac.learning_starts": learns_at, "checkpoint.keep_last": 9,
                "checkpoint.every_seconds": "none", "checkpoint.every_updates": every}
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return json.loads((folder / "summary.json").read_text())


def spans(folder: Path, name: str) -> list[float]:
    """Milliseconds of each span of that name."""
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return [event["dur"] / 1e3 for event in events if event.get("name") == name and event.get("ph") == "X"]


def new_bytes(checkpoints: Path) -> list[tuple[str, int, int]]:
    """Name, bytes, and bytes of files that no earlier checkpoint has, oldest first."""
    seen: set[int] = set()
    told = []
    for folder in sorted(checkpoints.iterdir()):
        files = [file.stat() for file in folder.iterdir()]
        told.append((folder.name, sum(f.st_size for f in files), sum(f.st_size for f in files if f.st_ino not in seen)))
        seen.update(f.st_ino for f in files)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the replay (1000000)")
    parser.add_argument("--env", default="HalfCheetah-v5", help="with actions of a Box (HalfCheetah-v5)")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="whose tandem (build/release)")
    parser.add_argument("--sb3", type=Path, help="a Python that has stable-baselines3")
    options = parser.parse_args()
    learned = LEARNED_UPDATES * STEPS_OF_AN_UPDATE
    with tempfile.TemporaryDirectory(prefix="tandem-replay-") as scratch:
        small = train(options.build, Path(scratch) / "small", options.env, 1_000, 10_000 + learned, 10_000, 5)
        half = options.rows // STEPS_OF_AN_UPDATE // 2
        full = train(options.build, Path(scratch) / "full", options.env, options.rows, options.rows + learned,
                     options.rows, half)
        checkpoints = new_bytes(Path(scratch) / "full" / "checkpoints")
        stops = spans(Path(scratch) / "full", "checkpoint")
        writes = spans(Path(scratch) / "full", "write checkpoint")
    more = full["peak_rss_mb"] - small["peak_rss_mb"]
    print(f"memory: {small['peak_rss_mb']:.0f} MB with 1,000 rows, {full['peak_rss_mb']:.0f} MB with {options.rows:,}: "
          f"{more:.0f} MB more")
    for (name, size, new), stop, write in zip(checkpoints, stops, writes, strict=True):
        print(f"checkpoint {name}: {size / 1e6:.1f} MB, of which {new / 1e6:.1f} MB were written, in {write:.0f} ms "
              f"beside the run, which stopped for {stop:.1f} ms")
    if options.sb3:
        answer = subprocess.run([str(options.sb3), "-c", SB3, options.env, str(options.rows)], check=True,
                                capture_output=True, text=True).stdout.split()
        print(f"stable-baselines3: {float(answer[1]) / 1e6:.1f} MB each time, and a stop for {float(answer[0]):.0f} ms")
    return 0 if more <= MOST_MB and max(stops) <= MOST_STOP_MS else 1


if __name__ == "__main__":
    sys.exit(main())
