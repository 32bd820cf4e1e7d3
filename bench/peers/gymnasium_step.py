"""Steps gymnasium's SyncVectorEnv of 64 environments with random actions. Prints a line of JSON an environment.

python gymnasium_step.py --seconds 0.5
"""

import argparse
import json
import time

import gymnasium
from gymnasium.vector import AutoresetMode

ENVS = 64
PREPARED = 16  # actions are drawn beforehand, as in bench/env/env_step_bench.cc
WARM_UP = 20


def steps_per_second(name, seconds):
    env = gymnasium.make_vec(
        name, num_envs=ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(PREPARED)]
    for number in range(WARM_UP):
        env.step(actions[number % PREPARED])
    count, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        env.step(actions[count % PREPARED])
        count += 1
    return count * ENVS / (time.monotonic() - start), count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True, help="of each environment")
    options = parser.parse_args()
    for name in ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"):
        value, count = steps_per_second(name, options.seconds)
        print(
            json.dumps(
                {"case": f"{name} x {ENVS}", "contender": "gymnasium", "value": value, "unit": "1/s", "samples": count}
            )
        )


if __name__ == "__main__":
    main()
