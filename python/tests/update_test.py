"""What a callback may ask of a run: to stop, to save, to change options."""

import json
import pickle
import subprocess
import sys
import threading

import pytest

import tandem


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
    "name, value",
    [("env", "Pendulum-v1"), ("run_dir", "elsewhere"), ("quiet", False), ("python", "python3"), ("plugins", ["a.so"])],
)
def test_what_belongs_to_the_run_or_the_call_cannot_change(small, name, value):
    with pytest.raises(tandem.ConfigError, match=f"{name} cannot change"):
        tandem.train(**small, on_update=lambda update: update.change(**{name: value}))


def test_an_option_of_the_whole_run_is_refused_before_the_run_is_saved_for_a_change(small):
    with pytest.raises(tandem.ConfigError, match="^seed and ppo.gamma cannot change while the run trains"):
        tandem.train(**small, on_update=lambda update: update.change(seed=5, ppo={"gamma": 0.9, "clip_range": 0.1}))


def test_the_log_says_that_the_python_program_stopped_the_run(small):
    log = (tandem.train(**small, on_update=lambda line: False).folder / "log.txt").read_text()
    assert "the Python program (stop(), change()" in log and "wants_stop" not in log


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

given = json.loads(sys.argv[1])
tandem.train(**given, shards=2, on_update=on_update, on_checkpoint=lambda its: saved.append(its["updates"]))
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
