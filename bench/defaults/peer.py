#!/usr/bin/env python3
"""The tasks of study.py and the later ones by stable-baselines3's PPO with its defaults, on their twins, and Tandem's.

    pip install -r bench/peers/sb3-requirements.txt
    bench/defaults/peer.py --json defaults.json                 all tasks, three seeds, as many steps as study.py gives
    bench/defaults/peer.py --json defaults.json --tandem build/release             the same of Tandem, likewise played

Results go where study.py keeps its own, under sb3/default and tandem/default: the mean return of 50 episodes that the
last policy plays with the most probable actions, on the twin. Both play the same episodes: where starts differ in how
much can be earned, 50 others have another mean. Tandem's policy is what `tandem export` writes. A task that a library
refuses has the message in place of a return.

Exit status: 0 when all runs ended, a refusal being an end; 2 for wrong usage.
"""

import argparse
import functools
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import gymnasium as gym
import later_twins
import numpy as np
import study
import twins

STEPS = study.STEPS | study.LATER_STEPS
PLUGINS = {"libdefault_tasks.so": study.STEPS, "liblater_tasks.so": study.LATER_STEPS}
EPISODES = 50


def play(act: Callable, task: str) -> float:
    """`act` gives the action for an observation."""
    env, returns = gym.make(task), []
    for episode in range(EPISODES):
        shown, _ = env.reset(seed=1000 + episode)
        total, ends = 0.0, False
        while not ends:
            shown, reward, terminated, truncated, _ = env.step(act(shown))
            total, ends = total + reward, terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def run_tandem(build: Path, task: str, seed: int) -> dict:
    import torch

    torch.set_num_threads(1)
    plugin = next(build / "lib" / name for name, tasks in PLUGINS.items() if task in tasks)
    tandem = build / "bin" / "tandem"
    with tempfile.TemporaryDirectory() as folder:
        where, policy_file = f"{folder}/run", f"{folder}/policy.pt"
        train = [tandem, "train", "--plugin", plugin, "--env", task, "--algo", "ppo", "--seed", str(seed)]
        begin = time.monotonic()
        subprocess.run([*train, "--total-steps", str(STEPS[task]), "--run-dir", where, "--quiet"], check=True)
        seconds = time.monotonic() - begin
        subprocess.run([tandem, "export", where, "-o", policy_file], check=True, capture_output=True)
        policy = torch.jit.load(policy_file)

    def act(shown):
        action = policy.act(torch.as_tensor(np.asarray(shown)).unsqueeze(0)).squeeze(0).numpy()
        return action if action.ndim else action.item()

    return {"return": play(act, task), "seconds": round(seconds, 1)}


def run_sb3(task: str, seed: int) -> dict:
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    begin = time.monotonic()
    try:
        model = PPO("MlpPolicy", gym.make(task), seed=seed, device="cpu")
    except (AssertionError, ValueError) as error:
        return {"refused": str(error)}
    model.learn(STEPS[task])
    seconds = time.monotonic() - begin
    return {"return": play(lambda shown: model.predict(shown, deterministic=True)[0], task),
            "seconds": round(seconds, 1)}


def register() -> None:
    twins.register()
    later_twins.register()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(STEPS), help="which tasks (all)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each (3)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--json", type=Path, default=Path("defaults.json"), help="where results go (defaults.json)")
    parser.add_argument("--tandem", type=Path, metavar="BUILD", help="train by Tandem's PPO of this build instead")
    options = parser.parse_args()
    tasks = options.tasks.split(",")
    if unknown := set(tasks) - set(STEPS):
        parser.error(f"no such task: {', '.join(sorted(unknown))} (there are {', '.join(STEPS)})")
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    label = "tandem/default" if options.tandem else "sb3/default"
    run = functools.partial(run_tandem, options.tandem.absolute()) if options.tandem else run_sb3
    mine = results.setdefault(label, {})
    work = [(task, seed) for task in tasks for seed in range(1, options.seeds + 1)
            if str(seed) not in mine.get(task, {})]
    with ProcessPoolExecutor(options.jobs, initializer=register) as pool:
        for (task, seed), result in zip(work, pool.map(run, *zip(*work, strict=True)) if work else [], strict=True):
            print(label, task, seed, result, flush=True)
            mine.setdefault(task, {})[str(seed)] = result
            options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
