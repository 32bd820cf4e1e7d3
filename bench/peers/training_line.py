"""What peers' training scripts have in common: their command line, what they notice on the way, and the line of JSON.

    OMP_NUM_THREADS=1 python SCRIPT --settings JSON --steps 500000 --seed 1 [--until-solved]

`--settings`: harness.training.Settings as JSON; its total_steps decides the learning rate, --steps when to end. Steps
per second count from the start of training to its end, start-up left out, as the env_steps_per_s of `tandem train`
does.
"""

import argparse
import importlib.metadata
import json
import time
from collections import deque
from types import SimpleNamespace

WINDOW = 100  # episodes; a mean return over so many of `solved_return` or more means solved
SOLVED_RETURN = {"CartPole-v1": 475.0}


def arguments():
    """.settings has the numbers as attributes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", required=True, type=lambda text: SimpleNamespace(**json.loads(text)))
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until-solved", action="store_true", help="end when solved, if that is before --steps")
    return parser.parse_args()


class Account:
    """Times are those of time.monotonic(), which all processes of a machine share."""

    def __init__(self, options):
        self._returns = deque(maxlen=WINDOW)
        self._threshold = SOLVED_RETURN.get(options.settings.env)
        self._until_solved = options.until_solved
        self._started = self._first_update_at = self._solved_at = None
        self._steps_before = 0

    def training_starts(self, env_steps=0):
        """`env_steps`: made already, and not counted: of what warms up."""
        self._started, self._steps_before = time.monotonic(), env_steps

    def update_ends(self):
        if self._first_update_at is None:
            self._first_update_at = time.monotonic()

    def episode_ends(self, total_return):
        self._returns.append(float(total_return))
        if self._solved_at is None and self._threshold is not None and len(self._returns) == WINDOW:
            if self.mean_return() >= self._threshold:
                self._solved_at = time.monotonic()

    def mean_return(self):
        return sum(self._returns) / len(self._returns) if self._returns else None

    def wants_more(self):
        return not (self._until_solved and self._solved_at is not None)

    def line(self, env_steps, packages, threads, mean_return=None):
        """`mean_return`: where the system keeps it itself."""
        seconds = time.monotonic() - self._started
        return json.dumps(
            {
                "env_steps": env_steps,
                "env_steps_per_s": (env_steps - self._steps_before) / seconds,
                "first_update_at": self._first_update_at,
                "solved_at": self._solved_at,
                "episode_return_mean": self.mean_return() if mean_return is None else mean_return,
                "threads": threads,
                "versions": {package: importlib.metadata.version(package) for package in packages},
            }
        )
