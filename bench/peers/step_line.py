"""What the scripts that step peers' environments have in common: the cases of bench/env/env_step_bench.cc and the line
of JSON that bench/run.py reads."""

import argparse
import json
import time

NATIVE = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
COUNTS = (64, 4096)
PREPARED = 16  # actions are drawn beforehand
WARM_UP = 3
AT_A_TIME = 1 << 16  # most environment steps between two looks at the clock, so that a fast one is not measured with it


def seconds_of_a_case():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True, help="of each case")
    return parser.parse_args().seconds


def measure(contender, name, count, step, seconds):
    """`step(number)` steps all `count` environments once."""
    for number in range(WARM_UP):
        step(number)
    begin = time.monotonic()
    step(0)
    # The last block takes no more than a tenth of it.
    block = max(1, min(AT_A_TIME // count, int(seconds / 10 / max(1e-9, time.monotonic() - begin))))
    made, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        for number in range(block):
            step(number)
        made += block
    value = made * count / (time.monotonic() - start)
    line = {"case": f"{name} x {count}", "contender": contender, "value": value, "unit": "1/s", "samples": made}
    print(json.dumps(line), flush=True)
