"""Runs of the program with environments in Python: the same bits in any number of processes, what a resume says, whom a
record is believed, and that nothing is left behind.

    python runs_parity.py path/to/tandem
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TANDEM = sys.argv[1]
HERE = pathlib.Path(__file__).resolve().parent
TRAIN = [
    "train", "--python", sys.executable, "--env", "gymnasium:CartPole-v1", "--seed", "3", "--num-envs", "6",
    "--shards", "2", "--rollout-steps", "32", "--epochs", "1", "--minibatches", "1", "--set", "policy.hidden=8",
    "--total-steps", "1536",
]
MARK = {**os.environ, "TANDEM_TEST_MARK": str(os.getpid())}


def run(*words, code=0, folder=HERE):
    words = [TANDEM, *map(str, words)]
    ended = subprocess.run(words, cwd=folder, env=MARK, capture_output=True, text=True, timeout=120)
    assert ended.returncode == code, (words, ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout + ended.stderr


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def left_behind():
    """Processes that were started for this test; a zombie has no environment any more."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                if f"TANDEM_TEST_MARK={os.getpid()}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        except OSError:
            pass
    return found


def nothing_is_left_behind():
    until = time.monotonic() + 30
    while left_behind():
        assert time.monotonic() < until, left_behind()
        time.sleep(0.02)


def same_bits_in_any_number_of_processes(scratch):
    for name, workers in (("one", 1), ("three", 3)):
        run(*TRAIN, "--set", f"env_workers={workers}", "--run-dir", scratch / name)
    run(*TRAIN, "--ranks", "2", "--run-dir", scratch / "two_ranks")
    states = {summary(scratch / name)["params_sha256"] for name in ("one", "three", "two_ranks")}
    assert len(states) == 1, states
    assert f"python: {sys.executable}" in (scratch / "one" / "config.yaml").read_text()


def a_resume_says_that_new_episodes_began(scratch):
    said = run("resume", scratch / "one", "--total-steps", "1920")
    assert "gymnasium:CartPole-v1 cannot save its state, so new episodes were started" in said, said
    assert summary(scratch / "one")["resumed"] == "inexactly"


def a_record_of_others_is_not_believed(scratch):
    (scratch / "one" / "config.yaml").chmod(0o666)
    for words in (("resume", scratch / "one", "--total-steps", "2304"),):
        said = run(*words, code=2)
        assert "may be written by everybody" in said and f"--python {sys.executable}" in said, said
    run("resume", scratch / "one", "--total-steps", "2304", "--python", sys.executable)
    newest = sorted((scratch / "three" / "checkpoints").glob("u*"))[-1]
    (newest / "manifest.json").chmod(0o666)
    said = run("eval", scratch / "three", "--episodes", "2", code=2)
    assert "no Python was started for it" in said, said
    run("eval", scratch / "three", "--episodes", "2", "--python", sys.executable)


def a_folder_of_others_and_its_files_are_not_believed(scratch):
    """A module of the current folder is code, and one with a package's name would be run by any environment."""
    shared = scratch / "shared"
    shared.mkdir()
    for name in ("inspect", "socket", "numpy", "gymnasium"):
        (shared / f"{name}.py").write_text(f"open({str(scratch / 'was_run')!r}, 'w')\n")
    words = ("eval", scratch / "two_ranks", "--episodes", "2")
    run(*words, folder=shared)
    shared.chmod(0o777)
    said = run(*words, code=2, folder=shared)
    assert "finds modules in the current folder, too, and" in said and "may be written by everybody" in said, said
    run(*words, "--python", sys.executable, folder=shared)
    assert not (scratch / "was_run").exists()


def a_picture_starts_no_python(scratch):
    """The interpreter of this record is no Python, and says so when it is started."""
    program = scratch / "python_that_tells"
    program.write_text(f"#!/bin/sh\ntouch {scratch / 'was_started'}\n")
    program.chmod(0o755)
    config = scratch / "two_ranks" / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace(f"python: {sys.executable}", f"python: {program}"))
    run("plot", scratch / "two_ranks", "-o", scratch / "picture.png")
    config.write_text(text)
    assert not (scratch / "was_started").exists()


def films_of_python_environments_are_made(scratch):
    """CartPole draws itself by pygame, with a strip below; the game of agents does not."""
    said = run("eval", scratch / "three", "--episodes", "2", "--video", f"{scratch}/film/", "--python", sys.executable)
    assert "video   " in said and "600 x 430" in said, said
    assert len(list((scratch / "film").glob("*.png"))) > 10
    said = run("eval", scratch / "agents", "--episodes", "2", "--video", f"{scratch}/no_film/", code=2)
    assert "unexpected keyword argument 'render_mode'" in said, said


def several_agents_are_trained(scratch):
    words = [*TRAIN, "--env", "pettingzoo:agents_env", "--env-option", "length=9"]
    words.remove("gymnasium:CartPole-v1")
    words.remove("--env")
    for name, more in (("agents", ["--set", "env_workers=1"]), ("agents_apart", ["--set", "env_workers=2"])):
        run(*words, *more, "--run-dir", scratch / name)
    assert summary(scratch / "agents")["params_sha256"] == summary(scratch / "agents_apart")["params_sha256"]
    assert "tortoise" in run("eval", scratch / "agents", "--episodes", "2")
    assert "fault" not in run("check", "pettingzoo:agents_env", "--python", sys.executable, "--steps", "100")


def episodes_end_for_agents_that_stay_away_or_are_told_nothing(scratch):
    words = [*TRAIN, "--env", "pettingzoo:agents_env", "--set", "env_workers=1"]
    words.remove("gymnasium:CartPole-v1")
    words.remove("--env")
    for name, option in (("absent", "absent=hare_1"), ("silent", "ends_silently=true")):
        run(*words, "--env-option", option, "--run-dir", scratch / name)
        episodes = summary(scratch / name)["episodes"]
        assert episodes > 1536 / 6 / 2, (name, episodes)
        assert "cut short" not in run("eval", scratch / name, "--episodes", "4", "--max-steps", "1000")


def failures_are_restarted_and_told(scratch):
    words = [*TRAIN, "--env", "gymnasium:troubled_env:Troubled-v0", "--env-option", "at=300", "--set", "env_workers=2"]
    words.remove("gymnasium:CartPole-v1")
    words.remove("--env")
    for fault, said in (("raise", "the simulator fell over"), ("kill", "was killed by SIGKILL in a step")):
        folder = scratch / fault
        run(*words, "--env-option", f"fault={fault}", "--set", "env_restarts=20", "--run-dir", folder)
        assert said in (folder / "log.txt").read_text()
    ended = run(*words, "--env-option", "fault=raise", "--run-dir", scratch / "ended", code=3)
    assert "in do_raise" in ended and "of 3 in step 150 of its episode" in ended, ended


def a_training_that_is_killed_takes_its_workers_along(scratch):
    words = [TANDEM, *TRAIN, "--total-steps", "100000000", "--run-dir", str(scratch / "killed")]
    words.remove("1536")
    words.remove("--total-steps")
    training = subprocess.Popen(words, cwd=HERE, env=MARK, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = scratch / "killed" / "metrics.jsonl"
    until = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size):
        assert time.monotonic() < until and training.poll() is None
        time.sleep(0.02)
    assert len(left_behind()) > 1
    training.send_signal(signal.SIGKILL)
    training.wait()
    nothing_is_left_behind()


def a_training_that_stood_still_goes_on(scratch):
    """As after Ctrl-Z, or in a container that is paused: no worker answers meanwhile, and none is to blame."""
    words = [TANDEM, *TRAIN, "100000000", "--set", "env_deadline_seconds=0.4", "--run-dir", str(scratch / "still")]
    words.remove("1536")
    training = subprocess.Popen(words, cwd=HERE, env=MARK,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    metrics = scratch / "still" / "metrics.jsonl"
    until = time.monotonic() + 60
    while not metrics.exists() or not metrics.read_text():
        assert training.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    for _ in range(12):
        all_of_it = left_behind()
        for process in all_of_it:
            os.kill(process, signal.SIGSTOP)
        time.sleep(0.6)
        for process in all_of_it:
            os.kill(process, signal.SIGCONT)
        time.sleep(0.1)
    assert training.poll() is None, training.stderr.read()
    training.send_signal(signal.SIGINT)
    assert training.wait(timeout=60) == 130, training.stderr.read()
    nothing_is_left_behind()


def a_python_lists_what_it_has():
    said = run("envs", "gymnasium:", "--python", sys.executable)
    assert "gymnasium:Acrobot-v1" in said and f"tandem envs gymnasium:minigrid: --python {sys.executable}" in said, said
    grid = "gymnasium:minigrid:MiniGrid-Empty-8x8-v0"
    said = run("envs", grid, "--python", sys.executable, code=2)
    assert "'mission' is a MissionSpace space" in said, said
    wrapper = ("--env-option", "python.wrappers=minigrid.wrappers:ImgObsWrapper")
    said = run("envs", grid, *wrapper, "--python", sys.executable)
    assert "uint8[7, 7, 3]" in said and "Shipped settings for ppo" in said, said


def mistakes_are_told_before_a_run_begins(scratch):
    folder = scratch / "never"
    words = [word for word in TRAIN if word not in ("--python", sys.executable)]
    said = run(*words, "--python", "/nowhere/python", "--run-dir", folder, code=2)
    assert "there is no program /nowhere/python" in said, said
    said = run(*words, "--python", "/usr/bin/python3", "--run-dir", folder, code=2)
    assert "pip install 'gymnasium>=1.0'" in said, said
    said = run("check", "gymnasium:Nowhere-v0", "--python", sys.executable, code=2)
    assert "has no such environment" in said, said
    assert "Discrete(2)" in run("envs", "gymnasium:CartPole-v1", "--python", sys.executable)
    a_python_lists_what_it_has()
    assert "gymnasium:ID" in run("envs")
    said = run("train", "--env", "CartPole-v1", "--python", sys.executable, "--run-dir", folder, code=2)
    assert "has no effect: CartPole-v1 is not stepped by a Python" in said, said
    said = run(*TRAIN, "--set", "isolate_envs=false", "--run-dir", folder, code=2)
    assert "isolate_envs" in said and "a process of its own; leave it out" in said, said
    settings = scratch / "settings.yaml"
    settings.write_text("python: ./venv/bin/python\nenv: gymnasium:CartPole-v1\n")
    said = run("train", settings, "--run-dir", folder, code=2)
    assert f"there is no program {scratch}/venv/bin/python" in said, said
    assert not folder.exists()


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (same_bits_in_any_number_of_processes, a_resume_says_that_new_episodes_began,
                     a_folder_of_others_and_its_files_are_not_believed, a_picture_starts_no_python,
                     a_record_of_others_is_not_believed, several_agents_are_trained,
                     episodes_end_for_agents_that_stay_away_or_are_told_nothing,
                     films_of_python_environments_are_made, failures_are_restarted_and_told,
                     a_training_that_is_killed_takes_its_workers_along, a_training_that_stood_still_goes_on,
                     mistakes_are_told_before_a_run_begins):
            begun = time.monotonic()
            test(pathlib.Path(folder))
            nothing_is_left_behind()
            print(f"{test.__name__}: ok, {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
