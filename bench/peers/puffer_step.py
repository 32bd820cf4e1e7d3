"""Steps PufferLib's CartPole in C, of float32, with random actions. Prints a line of JSON a case.

python puffer_step.py --seconds 0.5
"""

import numpy
from pufferlib.ocean.cartpole.cartpole import Cartpole
from step_line import COUNTS, PREPARED, measure, seconds_of_a_case


def prepare(count):
    env = Cartpole(num_envs=count, report_interval=64)
    env.reset()
    random = numpy.random.default_rng(0)
    actions = [random.integers(0, 2, count) for _ in range(PREPARED)]
    return lambda number: env.step(actions[number % PREPARED])


def main():
    seconds = seconds_of_a_case()
    for count in COUNTS:
        measure("pufferlib", "CartPole-v1", count, prepare(count), seconds)


if __name__ == "__main__":
    main()
