#!/usr/bin/env python3
"""All algorithms on all environments that Tandem brings along, as they are: the table of docs/benchmarks.md.

    bench/defaults/native.py                                   all, three seeds each, into native-runs
    bench/defaults/native.py --algos ppo --envs Acrobot-v1     some

Each run has the settings that are shipped for it, or those for unknown environments. Its score is the mean return of
100 episodes played by the last policy with the most probable actions. Runs stay in the folder: a later call goes on
with what is not there yet.

Exit status: 0 when all runs ended, 1 when one failed, 2 for wrong usage.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALGOS = ["ppo", "dd_ppo", "impala", "appo"]


def output_of(options: argparse.Namespace, *command: str) -> str:
    done = subprocess.run([options.build / "bin" / "tandem", *command], capture_output=True, text=True, timeout=7200)
    if done.returncode != 0:
        raise RuntimeError(f"tandem {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def row_of(options: argparse.Namespace, algo: str, env: str, threshold: float | None) -> str:
    folder = options.runs / algo / env
    output_of(options, "train", "--env", env, "--algo", algo, "--seed", "1", "--seeds", str(options.seeds), "--run-dir",
              str(folder), "--quiet")
    returns, seconds, steps = [], [], 0
    for run in sorted(folder.glob("seed-*")):
        played = run / "played.json"
        if not played.exists():
            played.write_text(output_of(options, "eval", str(run), "--episodes", "100", "--seed", "1000", "--json"))
        returns.append(json.loads(played.read_text())["return_mean"])
        summary = json.loads((run / "summary.json").read_text())
        seconds.append(summary["wall_s"])
        steps = summary["env_steps"]
    solved = "" if threshold is None else f"{sum(each >= threshold for each in returns)} of {len(returns)}"
    shown = ", ".join(f"{each:.4g}" for each in returns)
    return f"| {env} | {algo} | {shown} | {solved} | {steps:,} | {statistics.median(seconds):.1f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algos", default=",".join(ALGOS), help="which algorithms (all)")
    parser.add_argument("--envs", help="which environments (all that `tandem envs` lists)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each, two or more (3)")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="the build (build/release)")
    parser.add_argument("--runs", type=Path, default=Path("native-runs"), help="where runs go (native-runs)")
    options = parser.parse_args()
    listed = {env["name"]: env["reward_threshold"] for env in json.loads(output_of(options, "envs", "--json"))}
    envs = options.envs.split(",") if options.envs else list(listed)
    if unknown := set(envs) - set(listed):
        parser.error(f"no such environment: {', '.join(sorted(unknown))} (there are {', '.join(listed)})")
    print("| environment | algorithm | return of each seed | solved | steps | seconds |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    failed = 0
    for env in envs:
        for algo in options.algos.split(","):
            try:
                print(row_of(options, algo, env, listed[env]), flush=True)
            except RuntimeError as error:
                failed += 1
                print(error, file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
