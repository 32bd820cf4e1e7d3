"""An environment that does what none should: Troubled-v0 with the keywords `fault` and `at`, the step of the process in
which it does that."""

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Troubled(gymnasium.Env):
    steps_of_process = 0
    leaked = []

    def __init__(self, fault="none", at=8):
        self.fault, self.at = fault, at
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        # The program that started this process is the same for all workers.
        self.port = pathlib.Path(tempfile.gettempdir()) / ("troubled-port-%d" % os.getppid())
        if fault == "constructor":
            raise RuntimeError("no licence was found")
        if fault == "leaking_constructor":
            self.do_leak()
        if fault == "port" and self.port.exists():
            self.port.unlink()
            raise OSError("the port is in use")

    def observation(self):
        return np.array([self.begin, self.steps], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin, self.steps = float(self.np_random.integers(0, 1_000_000)), 0
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        Troubled.steps_of_process += 1
        observation, reward = self.observation(), 1.0
        if Troubled.steps_of_process == self.at:
            fault = getattr(self, "do_" + self.fault, None)
            if fault is not None:
                observation, reward = fault() or (observation, reward)
        return observation, reward, False, False, {}

    def do_raise(self):
        raise RuntimeError("the simulator fell over")

    def do_exit(self):
        sys.exit("the simulator is done")

    def do_os_exit(self):
        os._exit(0)

    def do_kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def do_stop(self):
        os.kill(os.getpid(), signal.SIGSTOP)

    def do_hang(self):
        time.sleep(1000)

    def do_port(self):
        self.port.touch()
        os._exit(0)

    def do_children(self):
        program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        program.terminate()
        assert program.wait(timeout=30) == -signal.SIGTERM
        for _ in range(20):  # also one that has hardly begun
            copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
            copy.start()
            copy.terminate()
            copy.join(10)
            assert copy.exitcode == -signal.SIGTERM, copy.exitcode

    def do_abort(self):
        os.abort()

    def do_print(self):
        print("a line of output")
        print("a line of errors", file=sys.stderr)

    def do_flood(self):
        line = "x" * 999
        for _ in range(20_000):
            print(line)

    def do_leak(self):
        while True:
            Troubled.leaked.append(np.ones(1 << 20))

    def do_read(self):
        assert sys.stdin.read() == ""

    def do_descriptors(self):
        os.close(3)

    def do_shape(self):
        return np.zeros(3, dtype=np.float32), 1.0

    def do_dtype(self):
        return np.zeros(2, dtype=np.complex128), 1.0

    def do_object(self):
        return {"no": "array"}, 1.0

    def do_nan(self):
        return np.array([np.nan, 0], dtype=np.float32), 1.0

    def do_infinite(self):
        return np.array([0, np.inf], dtype=np.float32), 1.0

    def do_reward(self):
        return self.observation(), "a lot"

    def do_nan_reward(self):
        return self.observation(), float("nan")


gymnasium.register("Troubled-v0", entry_point=Troubled)
