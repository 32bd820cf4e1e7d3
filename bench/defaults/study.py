#!/usr/bin/env python3
"""Tries settings on tasks that no preset knows: how much does an environment learn when nobody tunes for it?

    bench/defaults/study.py default=                                     the defaults, PPO, all tasks, three seeds
    bench/defaults/study.py default= long=ppo.epochs=10,rollout_steps=256 --algo ppo --tasks Servo-v0,KeyDoor-v0
    bench/defaults/study.py default= --tuned --tasks all                 what was tried by hand, beside it

Each NAME=KEY=VALUE,... is a variant; an empty one is the program as it is. A run's score is the mean return of 50
episodes played by its last policy with the most probable actions. Scores are shown between those of a random policy
(0) and of the best variant that this file knows (1). All results go to a JSON file, which a later call adds to.

Exit status: 0 when all runs gave results, 1 when one failed, 2 for wrong usage.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Steps that a run makes: enough for the best settings that were found, not for poor ones.
STEPS = {
    "PointReach-v0": 200_000,
    "ArmReach-v0": 300_000,
    "PlanarQuad-v0": 400_000,
    "SoftLander-v0": 300_000,
    "Servo-v0": 150_000,
    "Heater-v0": 200_000,
    "Reservoir-v0": 200_000,
    "Cruise-v0": 300_000,
    "ContextBandit-v0": 30_000,
    "KeyDoor-v0": 150_000,
    "SwitchBoard-v0": 80_000,
    "Crossing-v0": 200_000,
}
# The tasks of the folder later, which --tasks must name; see README.md. Their steps are a guess made without a run.
LATER_STEPS = {
    "GantryCrane-v0": 300_000,
    "HomeEnergy-v0": 200_000,
    "RoverPursuit-v0": 300_000,
    "Elevator-v0": 300_000,
    "RoadFrog-v0": 300_000,
    "StirredReactor-v0": 200_000,
}

# What somebody who tunes PPO by hand would try, from the settings that are there. The best of them on a task is what
# defaults are compared with. wide takes ten times as long.
CALM = "ppo.learning_rate=0.0003,ppo.entropy_coef=0"
TUNED = [
    f"constant={CALM},ppo.learning_rate_schedule=constant",
    f"linear={CALM}",
    "half=ppo.learning_rate=0.0005,ppo.entropy_coef=0",
    "fast=ppo.entropy_coef=0",
    "near=ppo.gamma=0.95,ppo.entropy_coef=0",
    "nearer=ppo.gamma=0.98,ppo.entropy_coef=0",
    f"far={CALM},ppo.gamma=0.999,ppo.gae_lambda=0.97",
    "short=ppo.gae_lambda=0.9,ppo.entropy_coef=0",
    "shorter=ppo.gae_lambda=0.9,ppo.gamma=0.98,ppo.entropy_coef=0",
    "more=ppo.epochs=20,ppo.target_kl=0.03,ppo.entropy_coef=0",
    "bounded=ppo.target_kl=0.02,ppo.entropy_coef=0",
    f"wide={CALM},num_envs=16,policy.hidden=256;256",
]


def variant(text: str) -> tuple[str, list[str]]:
    name, separator, keys = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"'{text}' is no NAME=KEY=VALUE,...")
    return name, [key for key in keys.split(",") if key]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", type=variant, metavar="NAME=KEY=VALUE,...", help="settings to try")
    parser.add_argument("--algo", default="ppo", help="the algorithm (ppo)")
    parser.add_argument("--tuned", action="store_true", help="also what was tried by hand, of PPO")
    parser.add_argument("--tasks", default=",".join(STEPS), help="which tasks, or all (those that were tuned on)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each (3)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="the build (build/release)")
    parser.add_argument("--plugin", type=Path, help="the tasks' plugin (that of BUILD/lib which has the task)")
    parser.add_argument("--json", type=Path, default=Path("defaults.json"), help="where results go (defaults.json)")
    options = parser.parse_args()
    options.variants += [variant(text) for text in TUNED] if options.tuned else []
    if not options.variants:
        parser.error("nothing to try: name a variant, as default=, or --tuned")
    options.tasks = list(STEPS | LATER_STEPS) if options.tasks == "all" else options.tasks.split(",")
    if unknown := set(options.tasks) - set(STEPS | LATER_STEPS):
        parser.error(f"no such task: {', '.join(sorted(unknown))} (there are {', '.join(STEPS | LATER_STEPS)})")
    return options


def plugin_of(task: str, options: argparse.Namespace) -> Path:
    library = "liblater_tasks.so" if task in LATER_STEPS else "libdefault_tasks.so"
    return (options.plugin or options.build / "lib" / library).resolve()


def played(options: argparse.Namespace, task: str, folder: Path, acting: str) -> float:
    command = [options.build / "bin" / "tandem", "eval", folder, "--plugin", plugin_of(task, options), "--episodes",
               "50", "--seed", "1000", "--acting", acting, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["return_mean"]


def run(options: argparse.Namespace, label: str, task: str, keys: list[str], seed: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        command = [options.build / "bin" / "tandem", "train", "--plugin", plugin_of(task, options), "--env", task,
                   "--algo", options.algo, "--seed", str(seed), "--run-dir", f"{folder}/run", "--quiet"]
        if not any(key.startswith("total_steps=") for key in keys):
            command += ["--total-steps", str((STEPS | LATER_STEPS)[task])]
        for key in keys:
            command += ["--set", key.replace(";", ",")]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            return {"failed": done.stderr.strip()}
        acting = "sample" if label == "random" else "mode"
        return {"return": played(options, task, Path(folder) / "run", acting), "seconds": round(seconds, 1)}


def table(results: dict, tasks: list[str]) -> str:
    """A row a task: the mean return of each variant, and its place between a random policy (0) and the best (1)."""
    names = list(dict.fromkeys(name for name in results if name != "random"))
    lines = []
    for task in tasks:
        means = {name: statistics.mean(seeds) for name, per_task in results.items()
                 if (seeds := [run["return"] for run in per_task.get(task, {}).values() if "return" in run])}
        if not (shown := [name for name in names if name in means]):
            continue
        low, best = means.get("random", min(means.values())), max(means.values())
        places = {name: (means[name] - low) / (best - low) if best > low else 1 for name in shown}
        cells = [f"{means[name]:11.5g} {places[name]:5.2f}" for name in shown]
        lines.append(f"{task:18s} " + " ".join(f"{name}: {cell}" for name, cell in zip(shown, cells)))
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    work = []
    for name, keys in [("random", ["total_steps=1"]), *options.variants]:
        label = name if name == "random" else f"{options.algo}/{name}"
        for task in options.tasks:
            work += [(label, task, keys, seed) for seed in range(1, options.seeds + 1)
                     if str(seed) not in results.get(label, {}).get(task, {})]
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for (label, task, _, seed), result in zip(work, pool.map(lambda w: run(options, *w), work)):
            print(label, task, seed, result, flush=True)
            failed += "failed" in result
            if "return" in result:
                results.setdefault(label, {}).setdefault(task, {})[str(seed)] = result
                options.json.write_text(json.dumps(results, indent=1))
    print(table(results, options.tasks))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
