"""Environments in Python: by gymnasium's names, and made by a function of the user's, in worker processes."""

import os

import gymnasium
import numpy as np

import tandem


class Corridor(gymnasium.Env):
    """One walks to the right end, and is paid there."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=4, note=None):
        self.length, self.place, self.note = length, 0, note

    def shown(self):
        return np.array([self.place / self.length], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        if self.note:
            self.note.write_text(str(os.getpid()))
        return self.shown(), {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        return self.shown(), -0.1, self.place == self.length, False, {}


def test_a_function_makes_environments_in_worker_processes(small, tmp_path):
    note = tmp_path / "process"
    small["env"] = lambda: gymnasium.wrappers.TimeLimit(Corridor(3, note), 50)
    run = tandem.train(**small)
    assert run.summary["end"] == "finished" and run.metrics["episodes"][-1] > 0
    assert int(note.read_text()) != os.getpid()
    # The run folder alone tells how the environment is made.
    small.pop("env")
    assert len(tandem.load(run).evaluate(2).returns) == 2


def test_a_class_takes_options(small):
    small.update(env=Corridor, env_options={"length": 2}, env_wrappers={"time_limit": 30})
    run = tandem.train(**small)
    assert run.metrics["episode_length_mean"][-1] >= 2


def test_a_name_of_gymnasiums_goes_through_the_bridge(small):
    small.update(env="FrozenLake-v1", total_steps=256)
    run = tandem.train(**small)
    assert "gymnasium:FrozenLake-v1" in (run.folder / "config.yaml").read_text()
