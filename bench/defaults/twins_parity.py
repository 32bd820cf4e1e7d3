#!/usr/bin/env python3
"""Plays each task, of the study and later, and its Python twin with the same seed and actions, and compares every
step.

usage: twins_parity.py PATH/TO/default_task_play
"""

import subprocess
import sys

import gymnasium as gym
import later_twins
import numpy as np
import twins

STEPS = 2500
TOLERANCE = 1e-5  # observations are float32, and errors of the last bit grow along an episode


def action_of(space, random):
    if isinstance(space, gym.spaces.Box):
        low = np.where(np.isfinite(space.low), space.low.astype(float), -3)
        high = np.where(np.isfinite(space.high), space.high.astype(float), 150)
        # The bounds of the task itself, which float32 would round.
        exact = [(round(a, 6), round(b, 6)) for a, b in zip(low.tolist(), high.tolist())]
        return np.array([random.uniform(a, b) for a, b in exact], dtype=np.float32)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return [int(random.integers(0, options)) for options in space.nvec]
    return int(random.integers(0, space.n))


def faults_of(name: str, program: str) -> list[str]:
    lines = subprocess.run([program, name, str(STEPS)], capture_output=True, text=True, check=True).stdout.splitlines()
    env, random, ends = gym.make(name, disable_env_checker=True), np.random.default_rng(11), 0
    env.reset(seed=5)
    for step, line in enumerate(lines):
        words = [float(word) for word in line.split()]
        shown, reward, terminated, truncated, _ = env.step(action_of(env.action_space, random))
        if terminated or truncated:
            ends += 1
            shown, _ = env.reset()
        theirs = [reward, terminated, truncated, *np.asarray(shown, dtype=float).tolist()]
        if not np.allclose(words, theirs, rtol=TOLERANCE, atol=TOLERANCE):
            return [f"{name}: step {step} differs: ours {words}, theirs {theirs}"]
    print(f"{name:18s} {len(lines)} steps, {ends} ends: equal")
    return [] if ends > 0 else [f"{name}: no episode ended"]


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    twins.register()
    later_twins.register()
    faults = [fault for task in (*twins.TASKS, *later_twins.TASKS)
              for fault in faults_of(f"{task.__name__}-v0", sys.argv[1])]
    print("\n".join(faults) or "twins: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
