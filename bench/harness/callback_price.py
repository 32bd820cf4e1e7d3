"""What an update costs more with a callback in Python: trainings with one and without, in turns, in this process.

    PYTHONPATH=build/release/python .venv/python/bin/python bench/harness/callback_price.py UPDATES ROUNDS

Prints a line of JSON: the median over the rounds of the difference of an update's microseconds, and the updates that
the callback was called with.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import tandem


def main() -> None:
    updates, rounds = int(sys.argv[1]), int(sys.argv[2])
    seen = 0

    def on_update(update):
        nonlocal seen
        seen += 1

    with tempfile.TemporaryDirectory(prefix="tandem-callback-") as scratch:

        def microseconds(number: int, callback) -> float:
            started = time.perf_counter()
            tandem.train(
                env="CartPole-v1",
                num_envs=4,
                rollout_steps=16,
                total_steps=updates * 64,
                policy={"hidden": [8]},
                ppo={"epochs": 1, "minibatches": 1},
                checkpoint={"every_updates": None, "every_seconds": None},
                log={"every_updates": 10**9},
                seed=1,
                quiet=True,
                run_dir=Path(scratch) / str(number),
                on_update=callback,
            )
            return (time.perf_counter() - started) / updates * 1e6

        microseconds(0, on_update)
        seen = 0
        # The first of a round is now the one, now the other.
        differences, without = [], []
        for number in range(1, rounds + 1):
            order = (None, on_update) if number % 2 else (on_update, None)
            its = {callback: microseconds(2 * number + half, callback) for half, callback in enumerate(order)}
            differences.append(its[on_update] - its[None])
            without.append(its[None])
    price = {"more_us": statistics.median(differences), "update_us": statistics.median(without), "seen": seen}
    print(json.dumps(price))


if __name__ == "__main__":
    main()
