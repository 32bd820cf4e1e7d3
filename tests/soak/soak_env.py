"""An environment of the soak: Soaked-v0 does what SOAK_FAULT names in step SOAK_AT of a process, or in the first reset
behind it. With SOAK_ONCE, the name of a file, only the first process of the run that comes so far does it."""

import os
import subprocess
import sys

import gymnasium
import troubled_env
from troubled_env import Troubled


def is_due():
    once = os.environ.get("SOAK_ONCE")
    if once is None:
        return True
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Soaked(Troubled):
    has_come = False

    def __init__(self):
        self.moment = int(os.environ.get("SOAK_AT", "0"))
        self.in_reset = os.environ.get("SOAK_IN") == "reset"
        super().__init__(os.environ.get("SOAK_FAULT", "none"), 0)

    def reset(self, **keywords):
        observation, info = super().reset(**keywords)
        is_late = 0 < self.moment <= Troubled.steps_of_process
        if self.in_reset and is_late and not Soaked.has_come and is_due():
            Soaked.has_come = True
            observation, _ = getattr(self, "do_" + self.fault)() or (observation, 0)
        return observation, info

    def step(self, action):
        if not self.in_reset and Troubled.steps_of_process + 1 == self.moment and is_due():
            self.at = self.moment
        return super().step(action)

    def do_flood(self):
        line = "x" * 9999
        for _ in range((1 << 30) // 10_000):
            print(line)

    def do_program(self):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])


gymnasium.register("Soaked-v0", entry_point=Soaked, max_episode_steps=50)
assert troubled_env
