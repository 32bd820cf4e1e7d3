"""Steps gymnasium's SyncVectorEnv with random actions. Prints a line of JSON an environment and number of them.

python gymnasium_step.py --seconds 0.5
"""

import gymnasium
from gymnasium.vector import AutoresetMode
from step_line import COUNTS, NATIVE, PREPARED, measure, seconds_of_a_case


def prepare(name, count):
    env = gymnasium.make_vec(
        name, num_envs=count, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(PREPARED)]
    return lambda number: env.step(actions[number % PREPARED])


def main():
    seconds = seconds_of_a_case()
    for name in NATIVE:
        for count in COUNTS:
            measure("gymnasium", name, count, prepare(name, count), seconds)


if __name__ == "__main__":
    main()
