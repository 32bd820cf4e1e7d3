"""Environments in Python: by gymnasium's names, and made by a function of the user's, in worker processes."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import tandem
from tandem import own_env


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


def vector_of(make, num_envs=2, **options):
    return tandem.make_vec(own_env.NAME, num_envs, env_options={own_env.OPTION: own_env.packed(make), **options})


def test_a_closed_vector_environment_has_no_worker_processes(tmp_path):
    note = tmp_path / "process"
    envs = vector_of(lambda: Corridor(3, note))
    envs.reset(seed=1)
    worker = int(note.read_text())
    os.kill(worker, 0)  # it is there
    envs.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


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


class Noted(Corridor):
    """Writes down with which options it is made."""

    def __init__(self, file, **options):
        super().__init__()
        Path(file).write_text(repr(options))


TEXTS = {
    "number": "12",
    "spaced": " 1.5 ",
    "words": ["True", "12"],
    "yes": "True",
    "no": "false",
    "none": "None",
    "null": "null",
    "nan": "NaN",
    "list": "[1]",
    "quoted": '"x"',
    "plain": "kitchen, 12 = twelve",
    "empty": "",
    "unicode": "\u00e9\u2028",
    "integer": 12,
    "switch": True,
    "half": 0.5,
    "nothing": None,
    "path": Path("7"),
}
ARRIVED = repr({**TEXTS, "path": "7"})


def test_texts_and_numbers_arrive_as_such(small, tmp_path):
    file = tmp_path / "options"
    small.update(env=Noted, env_options={"file": file, **TEXTS}, env_wrappers={"time_limit": 9}, total_steps=128)
    run = tandem.train(**small)
    assert file.read_text() == ARRIVED
    file.unlink()
    tandem.load(run.folder).evaluate(1)  # by the record
    assert file.read_text() == ARRIVED
    file.unlink()
    vector_of(Noted, file=file, **TEXTS).close()
    assert file.read_text() == ARRIVED


def test_texts_stay_texts_where_a_file_names_the_environment(small, tmp_path):
    config, file = tmp_path / "mine.yaml", tmp_path / "options"
    config.write_text(f"env: {own_env.NAME}\n")
    given = {own_env.OPTION: own_env.packed(Noted), "file": str(file), "level": "12"}
    small.update(env=None, config=config, env_options=[given], env_wrappers={"time_limit": 9}, total_steps=128)
    tandem.train(**small)
    assert file.read_text() == "{'level': '12'}"


def test_the_bridges_own_options_are_texts_as_on_the_command_line(small):
    options = {"python.vectorization": "loop", "python.metrics": "place"}
    run = tandem.train(**{**small, "env": Told, "env_options": options, "env_wrappers": {"time_limit": 30}})
    assert "env/place" in run.metrics


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


def test_a_run_of_a_class_of_a_script_goes_on_when_the_script_runs_again(small, tmp_path):
    """The class is part of the text, with bytes that differ from process to process."""
    script = tmp_path / "again.py"
    whole = Path(__file__).read_text()
    corridor = whole[whole.index("class Corridor") : whole.index("def test_a_function_makes")]
    given = {**small, "run_dir": str(small["run_dir"]), "resume": "auto"}
    del given["env"]
    script.write_text(
        "import gymnasium, numpy as np, os, sys, tandem\n\n\n" + corridor + "given = " + repr(given) + "\n"
        "given['total_steps'] = int(sys.argv[1])\n"
        "print(tandem.train(env=lambda: Corridor(length=5), **given).summary['env_steps'])\n"
    )
    for steps in (512, 1024):
        done = subprocess.run([sys.executable, script, str(steps)], capture_output=True, text=True, timeout=200)
        assert done.stdout.split()[-1:] == [str(steps)], done.stderr
