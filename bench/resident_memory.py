#!/usr/bin/env python3
"""Does a run that samples and learns at the same time keep the memory that it has?

    bench/resident_memory.py [--minutes 10] [--warm-up 60] [--build build/release] [-- ARGUMENTS of tandem train]

Runs `tandem train --algo impala --env CartPole-v1` for so many minutes and reads its resident memory every second.
After the warm-up, in which buffers, caches and the heap grow to their sizes, every reading has to be within 2 % of the
first ten seconds' mean. Prints a line every half minute and the lowest and highest reading; ends with 1 where one is
beyond that.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAINING = ["--algo", "impala", "--env", "CartPole-v1"]
EVERY_S, LINE_EVERY_S, FIRST_S = 1.0, 30.0, 10.0
WITHIN = 0.02
INTERRUPTED = 130  # the exit code of tandem train after SIGINT


def resident_mb(pid: int) -> float:
    """In 10^6 bytes. Throws FileNotFoundError or ValueError when the process is gone."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"process {pid} has no memory any more")


def watch(process: subprocess.Popen, seconds: float) -> list[tuple[float, float]]:
    """(seconds since the start, MB) every second; less when the process ends before."""
    readings: list[tuple[float, float]] = []
    started = time.monotonic()
    next_line = LINE_EVERY_S
    while (now := time.monotonic() - started) < seconds and process.poll() is None:
        try:
            readings.append((now, resident_mb(process.pid)))
        except (FileNotFoundError, ValueError):
            break
        if now >= next_line:
            print(f"{now:6.0f} s  {readings[-1][1]:8.1f} MB", flush=True)
            next_line += LINE_EVERY_S
        time.sleep(EVERY_S)
    return readings


def verdict(readings: list[tuple[float, float]], warm_up: float) -> tuple[float, float, float]:
    """The mean of the first seconds after the warm-up, and the lowest and highest later reading as a share of it."""
    first = [mb for at, mb in readings if warm_up <= at < warm_up + FIRST_S]
    later = [mb for at, mb in readings if at >= warm_up]
    mean = statistics.fmean(first)
    return mean, min(later) / mean, max(later) / mean


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument("--warm-up", type=float, default=60, help="seconds that are not judged (60)")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="whose tandem (build/release)")
    parser.add_argument("training", nargs="*", help="arguments of tandem train, after --")
    options = parser.parse_args()
    seconds = 60 * options.minutes
    if seconds < options.warm_up + 2 * FIRST_S:
        parser.error("--minutes must be longer than the warm-up by 20 s")
    with tempfile.TemporaryDirectory(prefix="tandem-memory-") as scratch:
        folder = Path(scratch) / "run"
        command = [options.build / "bin" / "tandem", "train", *(options.training or TRAINING), "--quiet"]
        command += ["--total-steps", str(10**15), "--run-dir", folder]
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL)
        try:
            readings = watch(process, seconds)
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=120)
        finally:
            process.kill()
            process.wait()
        if code != INTERRUPTED or readings[-1][0] < options.warm_up + FIRST_S:
            print(f"tandem train ended by itself, with {code}", file=sys.stderr)
            return 1
        steps = json.loads((folder / "summary.json").read_text())["env_steps"]
    mean, low, high = verdict(readings, options.warm_up)
    print(f"{steps:,} environment steps; after {options.warm_up:.0f} s {mean:.1f} MB, "
          f"later {low:.2%} to {high:.2%} of that")
    return 0 if 1 - WITHIN <= low and high <= 1 + WITHIN else 1


if __name__ == "__main__":
    sys.exit(main())
