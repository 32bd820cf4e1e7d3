"""tandem.train() and tandem.resume(): options, metrics, callbacks, and how runs end."""

import io
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tandem


def test_a_training_leaves_a_run_with_its_metrics(small):
    run = tandem.train(**small)
    assert run.summary["end"] == "finished"
    assert run.metrics["env_steps"].tolist() == [128 * update for update in range(1, 9)]
    assert run.metrics["policy_loss"].dtype == np.float64
    # Before the first episode has ended there is no mean return.
    assert np.isnan(run.metrics["episode_return_mean"][0]) == (run.metrics["episodes"][0] == 0)


def test_a_run_has_the_bits_of_the_program(small, tmp_path):
    ours = tandem.train(**small)
    flags = ["--set", "policy.hidden=8", "--minibatches", "2", "--epochs", "1", "--seed", "3", "--quiet"]
    words = ["train", "--env", "CartPole-v1", "--total-steps", "1024", "--num-envs", "4", "--rollout-steps", "32"]
    program = [sys.executable, "-m", "tandem", *words, *flags, "--run-dir", str(tmp_path / "program")]
    subprocess.run(program, check=True, timeout=120)
    theirs = tandem.Run(tmp_path / "program")
    assert ours.summary["state_sha256"] == theirs.summary["state_sha256"]


def test_callbacks_change_no_bit_and_see_every_update(small, tmp_path):
    plain = tandem.train(**small)
    seen, episodes, saved = [], [], []
    small["run_dir"] = tmp_path / "watched"
    watched = tandem.train(**small, on_update=seen.append, on_episode=episodes.append, on_checkpoint=saved.append)
    assert watched.summary["state_sha256"] == plain.summary["state_sha256"]
    assert [line["updates"] for line in seen] == list(range(1, 9))
    assert len(episodes) == seen[-1]["episodes"] and all(one["return"] == one["length"] for one in episodes)
    assert os.path.samefile(saved[-1]["folder"], next((tmp_path / "watched" / "checkpoints").glob("*8")))


def test_a_callback_may_go_to_another_folder(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    small["run_dir"] = "runs/here"

    def on_update(update):
        if update["updates"] == 2:
            os.chdir(tmp_path / "elsewhere")
            update.change(ppo={"entropy_coef": 0.1})

    run = tandem.train(**small, on_update=on_update)
    assert run.summary["end"] == "finished" and run.folder == tmp_path / "runs" / "here"
    monkeypatch.chdir(tmp_path)
    again = tandem.resume("runs/here", total_steps=1280, quiet=True, on_update=lambda update: os.chdir("/"))
    assert again.summary["env_steps"] == 1280


def test_a_callback_that_is_no_function_is_refused_before_anything_begins(small):
    with pytest.raises(tandem.ConfigError, match="on_episode: a function is wanted, not 3"):
        tandem.train(**small, on_episode=3)
    assert not small["run_dir"].exists()


def test_a_policy_can_be_played_when_its_checkpoint_is_gone(small):
    policies = []
    small["checkpoint"] = {"keep_last": 1, "every_updates": 1}
    run = tandem.train(**small, on_checkpoint=lambda saved: policies.append(tandem.load(saved["folder"])))
    assert len(policies) == 8 and len(list((run.folder / "checkpoints").iterdir())) < 8
    assert all(tandem.evaluate(policy, episodes=2).mean >= 8 for policy in policies)


def test_a_checkpoint_can_be_played_while_the_run_goes_on(small, tmp_path):
    plain = tandem.train(**small)
    small["run_dir"] = tmp_path / "played"
    means = []

    def on_checkpoint(saved):
        means.append(tandem.evaluate(tandem.load(saved["folder"]), episodes=3).mean)

    run = tandem.train(**small, on_update=lambda update: update.checkpoint(), on_checkpoint=on_checkpoint)
    assert len(means) == 8 and all(mean >= 8 for mean in means)  # a pole takes eight steps to fall
    assert run.summary["state_sha256"] == plain.summary["state_sha256"]


def test_what_a_callback_raises_comes_out_and_the_run_has_failed(small):
    def fail(line):
        if line["updates"] == 2:
            raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        tandem.train(**small, on_update=fail)
    summary = tandem.Run(small["run_dir"]).summary
    assert summary["end"] == "failed" and "on_update() raised LookupError: no such thing" in summary["failure"]


def test_a_text_that_is_no_unicode_is_recorded(small):
    def fail(update):
        raise ValueError("a file named x\udc80y")

    with pytest.raises(ValueError):
        tandem.train(**small, on_update=fail)
    assert "on_update() raised ValueError: a file named x\\udc80y" in tandem.Run(small["run_dir"]).summary["failure"]


def test_where_prints_are_collected_a_line_says_how_far_it_is(small, monkeypatch):
    small["quiet"] = False
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    tandem.train(**small)
    assert sys.stdout.getvalue().endswith("\n") and "1,024 of 1,024 steps" in sys.stdout.getvalue().splitlines()[-1]


def test_a_process_without_an_output_trains(small):
    given = {**small, "run_dir": str(small["run_dir"]), "quiet": False}
    program = f"import sys, tandem\nassert sys.stdout is None\ntandem.train(**{given!r}, on_update=lambda update: None)"
    words = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", program]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert tandem.Run(small["run_dir"]).summary["end"] == "finished"


def test_faults_come_together_and_name_their_keywords(small):
    small["ppo"] = {"gamma": 2, "learningrate": 1e-3}
    with pytest.raises(tandem.ConfigError) as caught:
        tandem.train(**small)
    faults = "\n".join(caught.value.faults)
    assert isinstance(caught.value, ValueError)
    assert "ppo.gamma = 2 (ppo={'gamma': ...})" in faults and "the nearest one is ppo.learning_rate" in faults


def test_there_is_one_training_at_a_time(small, tmp_path):
    def train_within(line):
        with pytest.raises(tandem.ConfigError, match="a training is under way"):
            tandem.train(**{**small, "run_dir": tmp_path / "inner"})

    assert tandem.train(**small, on_update=train_within).summary["end"] == "finished"


def test_a_copy_that_a_callback_forks_and_that_comes_back_ends_there(small):
    children = []

    def fork(line):
        if line["updates"] == 2 and (child := os.fork()) != 0:
            children.append(child)

    run = tandem.train(**small, on_update=fork)
    assert run.summary["end"] == "finished"
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 3


def test_other_threads_run_while_the_core_computes(small):
    """Without callbacks nothing but the core's own giving back lets another thread see the run grow."""
    file, seen, is_over = small["run_dir"] / "metrics.jsonl", set(), threading.Event()

    def look():
        while not is_over.is_set():
            if file.exists():
                seen.add(file.stat().st_size)

    looker = threading.Thread(target=look)
    looker.start()
    small["total_steps"] = 40_960
    try:
        tandem.train(**small)
    finally:
        is_over.set()
        looker.join()
    assert len(seen) > 2  # more than the file as it is at the end


def held():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def test_trainings_leave_nothing_behind(small, tmp_path):
    small["total_steps"] = 256
    after = []
    for number in range(6):
        small["run_dir"] = tmp_path / str(number)
        tandem.train(**small, on_update=lambda line: None)
        after.append(held())
    assert after[2:] == [after[1]] * 4


def test_environments_live_in_processes_of_their_own_where_that_is_asked_for(small, tmp_path):
    plain = tandem.train(**small)
    small.update(run_dir=tmp_path / "isolated", isolate_envs=True)
    assert tandem.train(**small).summary["state_sha256"] == plain.summary["state_sha256"]


def test_a_file_of_settings_lies_below_the_keywords(small, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 9\nppo: {gamma: 0.5}\n")
    run = tandem.train(**small, config=file)
    config = (run.folder / "config.yaml").read_text()
    assert "seed: 3" in config and "gamma: 0.5" in config


@pytest.mark.parametrize("value", [None, "auto"])
def test_an_open_folder_is_a_new_one(small, tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("run_dir: elsewhere\n")
    small.update(run_dir=value, total_steps=128)
    runs = [tandem.train(**small), tandem.train(**small, config="mine.yaml")]
    assert [run.folder.parent for run in runs] == [tmp_path / "runs"] * 2 and runs[0].folder != runs[1].folder


@pytest.mark.parametrize("value", [None, "auto"])
def test_an_open_python_is_the_one_that_trains(small, tmp_path, value):
    (tmp_path / "mine.yaml").write_text("python: /nowhere/python\n")
    small.update(env="FrozenLake-v1", total_steps=128, python=value)
    for number, more in enumerate([{}, {"config": tmp_path / "mine.yaml"}]):
        run = tandem.train(**{**small, "run_dir": tmp_path / str(number), **more})
        assert f"python: {sys.executable}" in (run.folder / "config.yaml").read_text()


def test_the_version_is_that_of_the_core():
    program = [sys.executable, "-m", "tandem", "version", "--json"]
    told = subprocess.run(program, check=True, capture_output=True, text=True, timeout=60).stdout
    assert tandem.__version__ in json.dumps(json.loads(told))
