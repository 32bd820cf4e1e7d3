"""Environments in Python: by gymnasium's names, and made by a function of the user's, in worker processes."""

import os
import pickle
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

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
    assert len(tandem.load(run.folder).evaluate(2).returns) == 2


class OldReset(Corridor):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0][:1]


class OldStep(Corridor):
    def step(self, action):
        return super().step(action)[1:]


class NoStep(Corridor):
    def step(self, action):
        return None


WORDS = "gymnasium's environments return"


@pytest.mark.parametrize(
    "env, text",
    [
        (OldReset, rf"reset\(\) returned ndarray, and {WORDS} \(observation, info\)"),
        (OldStep, rf"step\(\) returned 4 values, and {WORDS} \(observation, reward, terminated, truncated, info\)"),
        (NoStep, r"step\(\) returned NoneType"),
    ],
)
def test_what_an_environment_returns_amiss_is_said(small, env, text):
    with pytest.raises(tandem.Error, match=text):
        tandem.train(**{**small, "env": env})


def test_a_class_takes_options(small):
    small.update(env=Corridor, env_options={"length": 2}, env_wrappers={"time_limit": 30})
    run = tandem.train(**small)
    assert run.metrics["episode_length_mean"][-1] >= 2


class Told(Corridor):
    def step(self, action):
        shown, reward, terminated, truncated, _ = super().step(action)
        return shown, reward, terminated, truncated, {"place": self.place, "right": float(action == 1)}


def test_numbers_of_info_are_metrics(small):
    episodes = []
    options = {"length": 2, "python.metrics": ["place", "mean:right"]}
    small.update(env=Told, env_options=options, env_wrappers={"time_limit": 30}, total_steps=512)
    run = tandem.train(**small, on_episode=episodes.append)
    assert len(episodes) > 10 and run.metrics["env/right"][-1] == pytest.approx(np.mean(last(episodes, 1)))
    assert run.metrics["env/place"][-1] == pytest.approx(np.mean(last(episodes, 0)))


def last(episodes, metric):
    return [episode["metrics"][metric] for episode in episodes[-100:]]


def test_a_name_of_gymnasiums_goes_through_the_bridge(small):
    small.update(env="FrozenLake-v1", total_steps=256)
    run = tandem.train(**small)
    assert "gymnasium:FrozenLake-v1" in (run.folder / "config.yaml").read_text()


def test_where_others_may_write_code_runs_for_the_process_that_named_it(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o777)
    small.update(env="FrozenLake-v1", total_steps=256)

    def on_update(update):
        if update["updates"] == 1:
            update.change(total_steps=384)

    run = tandem.train(**small, on_update=on_update)
    assert run.summary["env_steps"] == 384 and len(tandem.load(run).evaluate(2).returns) == 2
    assert tandem.resume(run, total_steps=512, quiet=True).summary["env_steps"] == 512
    with pytest.raises(tandem.ConfigError, match="may be written by everybody"):
        tandem.load(run.folder)
    with pytest.raises(tandem.ConfigError, match="may be written by everybody"):
        tandem.resume(run.folder, total_steps=640)
    assert len(tandem.load(run.folder, python=sys.executable).evaluate(2).returns) == 2
    again = tandem.resume(run.folder, total_steps=640, quiet=True, python=Path(sys.executable))
    assert len(tandem.load(again).evaluate(2).returns) == 2
    with pytest.raises(tandem.ConfigError, match="may be written by everybody"):
        tandem.load(pickle.loads(pickle.dumps(again)))
