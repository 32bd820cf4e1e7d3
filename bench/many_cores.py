#!/usr/bin/env python3
"""How fast would a run of PPO be on more cores than this machine has?

    bench/many_cores.py [--cores 1 2 4 16 64 192] [--line-ns 100] [--copy-gb 10] [--build build/release] CONFIG
                        [-- further arguments of tandem train]

Runs `tandem train CONFIG --profile` on one replica, and on two where the machine has them, and sorts the phases of the
first replica into those that replicas share and those that each of them does whole. From the run on one replica it
calculates what an update takes on more:

    shared / shares(n) + whole + sums x (2 (n - 1) line + 2 bytes / copy)

shares(n) is the shards over the most shards that a replica has. Each sum waits twice for n - 1 others, whose cache
lines come one after the other, and reads and writes each gradient once, at the rate of a copy of one core.

The first two columns can be compared with what was measured here. ALL ELSE IS EXTRAPOLATED: it knows of no memory that
many cores share, no slower clock of busy chips, and no hardware of the kind.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The phases of a replica's thread whose work is that of its shards. The rest is the same on each replica.
SHARED = {"loss and gradients", "act", "step environments", "rollout", "gae", "load", "shuffle", "add gradients",
          "statistics", "advantage moments"}
WAITING = {"sync", "sum statistics", "wait"}


def phases(profile: str) -> dict[str, tuple[float, int]]:
    """Own milliseconds of each phase of the first replica, and how often it ran."""
    rows = re.findall(r"^replica 0\s+(\S.*?)\s{2,}([\d.]+)\s+[\d.]+%(?:\s+[\d.]+\s+(\d+))?", profile, re.MULTILINE)
    return {name: (1e3 * float(own), int(times or 0)) for name, own, times in rows}


def measure(program: Path, config: str, replicas: int, more: list[str]) -> tuple[dict, int, float]:
    """Phases, updates, and milliseconds of an update: the median of those behind the first."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        command = [program, "train", config, "--devices", f"cpu:{replicas}", "--profile", "--quiet", "--run-dir", run]
        subprocess.run([*command, *more], check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][1:]
        each = sorted(line["sample_ms"] + line["load_ms"] + line["learn_ms"] for line in lines)
        updates = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["updates"]
        return phases((run / "profile.txt").read_text()), updates, each[len(each) // 2]


def model(ms: dict[str, float], shards: int, sums: float, bytes_of_sum: float, n: int, line_ns: float, copy_gb: float):
    """Milliseconds of an update on n replicas: shared, whole, waiting."""
    shares = shards / -(-shards // n)
    wait = 0.0 if n == 1 else sums * (2 * (n - 1) * line_ns * 1e-6 + 2 * bytes_of_sum / (copy_gb * 1e6))
    return ms["shared"] / shares, ms["whole"], wait


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 8, 16, 64, 192])
    parser.add_argument("--shards", type=int, default=64, help="of the runs, as many as the most replicas that pay")
    parser.add_argument("--parameters", type=int, default=9_155, help="of the model, for the bytes of a sum")
    parser.add_argument("--line-ns", type=float, default=100, help="until a cache line comes from another core")
    parser.add_argument("--copy-gb", type=float, default=10, help="bytes that a core copies in a second, in 10^9")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    asked = parser.parse_args(sys.argv[1:at])
    program = asked.build / "bin" / "tandem"
    more = ["--set", f"shards={asked.shards}", *sys.argv[at + 1 :]]
    found, updates, of_one = measure(program, asked.config, 1, more)
    own = {name: ms / updates for name, (ms, _) in found.items()}
    ms = {"shared": sum(its for name, its in own.items() if name in SHARED),
          "whole": sum(its for name, its in own.items() if name not in SHARED | WAITING and not name.startswith("("))}
    sums = found.get("sync", (0.0, 0))[1] / updates
    measured = {1: of_one}
    if len(os.sched_getaffinity(0)) >= 2:
        measured[2] = measure(program, asked.config, 2, more)[2]
    print(f"{'cores':>6} {'shared ms':>10} {'whole ms':>9} {'waits ms':>9} {'update ms':>10} {'times':>7}  measured ms")
    base = sum(model(ms, asked.shards, sums, 4 * asked.parameters, 1, asked.line_ns, asked.copy_gb))
    for n in asked.cores:
        parts = model(ms, asked.shards, sums, 4 * asked.parameters, n, asked.line_ns, asked.copy_gb)
        here = f"{measured[n]:.2f}" if n in measured else "extrapolated"
        columns = [f"{n:>6} {parts[0]:>10.3f} {parts[1]:>9.3f} {parts[2]:>9.3f} {sum(parts):>10.3f}"]
        print(*columns, f"{base / sum(parts):>7.1f}  {here}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
