#!/usr/bin/env python3
"""The tasks of study.py and the later ones by stable-baselines3's PPO with its defaults, on their twins.

    pip install -r bench/peers/sb3-requirements.txt
    bench/defaults/peer.py --json defaults.json                 all tasks, three seeds, as many steps as study.py gives

Results go where study.py keeps its own, under sb3/default: the mean return of 50 episodes played by the last policy
with the most probable actions. A task that the library refuses has the message in place of a return.

Exit status: 0 when all runs ended, a refusal being an end; 2 for wrong usage.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import gymnasium as gym
import later_twins
import numpy as np
import study
import twins

STEPS = study.STEPS | study.LATER_STEPS
EPISODES = 50


def play(model, task: str) -> float:
    env, returns = gym.make(task), []
    for episode in range(EPISODES):
        shown, _ = env.reset(seed=1000 + episode)
        total, ends = 0.0, False
        while not ends:
            action, _ = model.predict(shown, deterministic=True)
            shown, reward, terminated, truncated, _ = env.step(action)
            total, ends = total + reward, terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def run(task: str, seed: int) -> dict:
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
    return {"return": play(model, task), "seconds": round(seconds, 1)}


def register() -> None:
    twins.register()
    later_twins.register()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(STEPS), help="which tasks (all)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each (3)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--json", type=Path, default=Path("defaults.json"), help="where results go (defaults.json)")
    options = parser.parse_args()
    tasks = options.tasks.split(",")
    if unknown := set(tasks) - set(STEPS):
        parser.error(f"no such task: {', '.join(sorted(unknown))} (there are {', '.join(STEPS)})")
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    mine = results.setdefault("sb3/default", {})
    work = [(task, seed) for task in tasks for seed in range(1, options.seeds + 1)
            if str(seed) not in mine.get(task, {})]
    with ProcessPoolExecutor(options.jobs, initializer=register) as pool:
        for (task, seed), result in zip(work, pool.map(run, *zip(*work, strict=True)) if work else [], strict=True):
            print("sb3/default", task, seed, result, flush=True)
            mine.setdefault(task, {})[str(seed)] = result
            options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
