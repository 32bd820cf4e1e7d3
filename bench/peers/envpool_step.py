"""Steps EnvPool's environments on one thread with random actions. Prints a line of JSON a case.

python envpool_step.py --seconds 0.5
"""

import envpool
import numpy
from step_line import COUNTS, NATIVE, PREPARED, measure, seconds_of_a_case


def prepare(name, count):
    env = envpool.make(name, env_type="gymnasium", num_envs=count, batch_size=count, num_threads=1, seed=0)
    env.reset()
    random, space = numpy.random.default_rng(0), env.action_space
    if hasattr(space, "n"):
        actions = [random.integers(0, space.n, count).astype(numpy.int32) for _ in range(PREPARED)]
    else:
        shape = (count, *space.shape)
        actions = [random.uniform(space.low, space.high, shape).astype(numpy.float32) for _ in range(PREPARED)]
    return lambda number: env.step(actions[number % PREPARED])


def main():
    seconds = seconds_of_a_case()
    for name in NATIVE:
        for count in COUNTS:
            measure("envpool", name, count, prepare(name, count), seconds)


if __name__ == "__main__":
    main()
