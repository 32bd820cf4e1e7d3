"""tandem.train() and tandem.resume(): options, metrics, callbacks, and how runs end."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

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


def test_a_false_answer_ends_the_run_in_order_and_a_resume_has_the_bits_of_a_whole_one(small, tmp_path):
    whole = tandem.train(**small)
    small["run_dir"] = tmp_path / "stopped"
    run = tandem.train(**small, on_update=lambda line: line["updates"] < 3)
    assert (run.summary["end"], run.summary["updates"]) == ("stopped", 3)
    assert tandem.resume(run, quiet=True).summary["state_sha256"] == whole.summary["state_sha256"]


def test_an_update_can_be_asked_to_stop_and_to_save(small, tmp_path):
    saved = []

    def on_update(update):
        if update["updates"] in (2, 3):
            update.checkpoint()
        if update["updates"] == 5:
            update.stop()

    run = tandem.train(**small, on_update=on_update, on_checkpoint=lambda its: saved.append(its["updates"]))
    assert (run.summary["end"], saved) == ("stopped", [2, 3, 5])


def test_a_change_of_nothing_changes_nothing(small):
    def on_update(update):
        update.change()
        update.change(ppo={})

    assert tandem.train(**small, on_update=on_update).summary["end"] == "finished"


def test_of_several_values_of_an_option_the_last_one_holds(small):
    def on_update(update):
        if update["updates"] == 2:
            update.change(total_steps=1152, ppo={"entropy_coef": 0.5})
            update.change(total_steps=1280)

    run = tandem.train(**small, on_update=on_update)
    assert run.summary["updates"] == 10 and "entropy_coef: 0.5" in (run.folder / "config.yaml").read_text()


@pytest.mark.parametrize(
    "name, value", [("env", "Pendulum-v1"), ("run_dir", "elsewhere"), ("quiet", False), ("python", "python3"), ("plugins", ["a.so"])]
)
def test_what_belongs_to_the_run_or_the_call_cannot_change(small, name, value):
    with pytest.raises(tandem.ConfigError, match=f"{name} cannot change"):
        tandem.train(**small, on_update=lambda update: update.change(**{name: value}))


def test_nothing_can_be_asked_of_a_run_that_has_ended(small):
    kept = []
    tandem.train(**small, on_update=kept.append)
    for ask in (kept[-1].stop, kept[-1].checkpoint, lambda: kept[-1].change(total_steps=2048)):
        with pytest.raises(tandem.RunError, match="has ended"):
            ask()


def test_an_update_is_sent_elsewhere_as_a_dict(small):
    kept = []
    tandem.train(**small, on_update=lambda update: kept.append(pickle.dumps(update)))
    assert type(pickle.loads(kept[0])) is dict and pickle.loads(kept[0])["updates"] == 1


def test_what_an_algorithm_does_not_have_is_none(small):
    seen = []
    small.pop("ppo"), small.pop("rollout_steps")
    tandem.train(**small, algo="dqn", dqn={"learning_starts": 100, "batch_size": 16}, on_update=seen.append)
    assert seen[-1]["approx_kl"] is None and seen[-1]["value_loss"] > 0


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


def test_a_changed_option_holds_from_the_next_update_on_and_is_recorded(small, tmp_path):
    seen, episodes = [], []
    small["ppo"].update(learning_rate=3e-4, learning_rate_schedule="constant")

    def on_update(update):
        seen.append((update["updates"], update["learning_rate"]))
        if update["updates"] in (3, 5):
            update.change(ppo={"learning_rate": 1e-3 / update["updates"]})

    run = tandem.train(**small, on_update=on_update, on_episode=episodes.append)
    rates = [3e-4] * 3 + [1e-3 / 3] * 2 + [2e-4] * 3
    assert seen == list(zip(range(1, 9), rates)) and run.summary["end"] == "finished"
    assert len(episodes) == run.summary["episodes"]
    assert "learning_rate: 0.0002" in (run.folder / "config.yaml").read_text()

    small["run_dir"] = tmp_path / "by hand"
    its = tandem.train(**small, on_update=lambda line: line["updates"] < 3)
    tandem.resume(its, ppo={"learning_rate": 1e-3 / 3}, quiet=True, on_update=lambda line: line["updates"] < 5)
    whole = tandem.resume(its, ppo={"learning_rate": 2e-4}, quiet=True)
    assert whole.summary["state_sha256"] == run.summary["state_sha256"]


def test_a_change_in_the_last_update_can_be_more_steps(small):
    def on_update(update):
        if update["updates"] == 8:
            update.change(total_steps=1280)

    assert tandem.train(**small, on_update=on_update).summary["updates"] == 10


def test_a_change_at_fault_leaves_a_whole_run(small):
    with pytest.raises(tandem.ConfigError, match="ppo.learning_rate"):
        tandem.train(**small, on_update=lambda update: update.change(ppo={"learning_rate": -1}))
    run = tandem.Run(small["run_dir"])
    assert (run.summary["end"], run.summary["updates"]) == ("stopped", 1)
    assert tandem.resume(run, quiet=True).summary["end"] == "finished"


def test_a_stop_beside_a_change_ends_the_run(small):
    def on_update(update):
        update.change(ppo={"entropy_coef": 0.1})
        return False

    assert tandem.train(**small, on_update=on_update).summary["end"] == "stopped"


def test_ctrl_c_beside_a_change_ends_the_run(small):
    def on_update(update):
        update.change(total_steps=2048)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tandem.train(**small, on_update=on_update)


def test_a_checkpoint_can_be_played_while_the_run_goes_on(small, tmp_path):
    plain = tandem.train(**small)
    small["run_dir"] = tmp_path / "played"
    means = []

    def on_checkpoint(saved):
        means.append(tandem.evaluate(tandem.load(saved["folder"]), episodes=3).mean)

    run = tandem.train(**small, on_update=lambda update: update.checkpoint(), on_checkpoint=on_checkpoint)
    assert len(means) == 8 and all(mean >= 8 for mean in means)  # a pole takes eight steps to fall
    assert run.summary["state_sha256"] == plain.summary["state_sha256"]


def test_a_process_that_is_killed_in_a_callback_leaves_a_whole_checkpoint(small, tmp_path):
    whole = tandem.train(**small)
    place = tmp_path / "killed"
    kill = "lambda update: update.checkpoint() if update['updates'] < 3 else os.kill(os.getpid(), signal.SIGKILL)"
    given = {**small, "run_dir": str(place)}
    program = f"import os, signal, tandem\ntandem.train(**{given!r}, on_update={kill})\n"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == -signal.SIGKILL
    assert tandem.resume(place, quiet=True).summary["state_sha256"] == whole.summary["state_sha256"]


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


def test_ctrl_c_ends_the_run_with_a_checkpoint(small, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    small["total_steps"] = 10**9

    def interrupt(line):
        if line["updates"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tandem.train(**small, on_update=interrupt)
    assert tandem.Run(small["run_dir"]).summary["end"] == "stopped"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_ones_own_is_called_and_the_run_stops(small):
    caught = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    begun = small["run_dir"] / "metrics.jsonl"
    small["total_steps"] = 10**9
    killer = threading.Thread(target=lambda: (waited_for(begun), os.kill(os.getpid(), signal.SIGINT)))
    try:
        killer.start()
        assert tandem.train(**small).summary["end"] == "stopped"
    finally:
        killer.join()
        signal.signal(signal.SIGINT, before)
    assert caught == [signal.SIGINT]


def test_a_signal_beside_a_change_ends_the_run_whatever_its_handler_does(small):
    caught = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))

    def on_update(update):
        update.change(total_steps=2048)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        run = tandem.train(**small, on_update=on_update)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (run.summary["end"], run.summary["updates"], caught) == ("stopped", 1, [signal.SIGTERM])


def test_a_signal_beside_a_stop_is_not_lost(small):
    def on_update(update):
        os.kill(os.getpid(), signal.SIGTERM)
        return False

    caught = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
    try:
        tandem.train(**small, on_update=on_update)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught == [signal.SIGTERM]


def test_another_thread_may_ask(small):
    def on_update(update):
        if update["updates"] == 2:
            asker = threading.Thread(target=lambda: update.change(total_steps=1152, ppo={"entropy_coef": 0.25}))
            asker.start()
            asker.join()

    run = tandem.train(**small, on_update=on_update)
    assert run.summary["updates"] == 9 and "entropy_coef: 0.25" in (run.folder / "config.yaml").read_text()


RANK = """
import json, sys, tandem
saved, refused = [], []

def on_update(update):
    if update["updates"] == 3:
        update.checkpoint()
        try:
            update.change(total_steps=2048)
        except tandem.ConfigError as error:
            refused.append(str(error))

tandem.train(**json.loads(sys.argv[1]), shards=2, on_update=on_update, on_checkpoint=lambda its: saved.append(its["updates"]))
if saved or refused:
    print("told", json.dumps([saved, refused]))
"""


def test_with_several_ranks_the_leader_is_told_and_may_ask_for_a_checkpoint(small, tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    given = json.dumps({**small, "run_dir": str(small["run_dir"])})
    launch = [sys.executable, "-m", "tandem", "launch", "--ranks", "2", "--", sys.executable, str(script), given]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "told" in line]
    saved, refused = json.loads(line.split("told ")[1])
    assert saved == [4, 8] and refused[0].startswith("change() is for runs of one rank")


def waited_for(file):
    while not file.exists():
        time.sleep(0.001)


def test_ctrl_c_while_nobody_listens_ends_the_run_with_a_checkpoint(small, tmp_path):
    small["total_steps"] = 10**9
    begun = small["run_dir"] / "metrics.jsonl"

    def interrupt():
        waited_for(begun)
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        tandem.train(**small)
    killer.join()
    assert tandem.Run(small["run_dir"]).summary["end"] == "stopped"


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
    steps, is_over = [0], threading.Event()

    def count():
        while not is_over.is_set():
            steps[0] += 1

    counter = threading.Thread(target=count)
    seen = []
    counter.start()
    small["total_steps"] = 20_480
    tandem.train(**small, on_update=lambda line: seen.append(steps[0]))
    is_over.set()
    counter.join()
    assert len(set(seen)) > 5  # it went on between the calls, as often as the system let it


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


def test_the_version_is_that_of_the_core():
    program = [sys.executable, "-m", "tandem", "version", "--json"]
    told = subprocess.run(program, check=True, capture_output=True, text=True, timeout=60).stdout
    assert tandem.__version__ in json.dumps(json.loads(told))
