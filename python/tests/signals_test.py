"""Signals while a run trains, and during its callbacks."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import tandem


@pytest.fixture(autouse=True)
def interrupts_are_heard():
    """Also where the tests were started by a shell that ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_beside_a_change_ends_the_run(small):
    def on_update(update):
        update.change(total_steps=2048)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tandem.train(**small, on_update=on_update)


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


def test_a_signal_in_the_last_update_is_not_lost_though_the_run_finishes(small):
    def on_update(update):
        if update["env_steps"] == 1024:
            os.kill(os.getpid(), signal.SIGTERM)

    caught = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
    try:
        run = tandem.train(**small, on_update=on_update)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (run.summary["env_steps"], caught) == (1024, [signal.SIGTERM])


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


def test_a_process_that_is_killed_in_a_callback_leaves_a_whole_checkpoint(small, tmp_path):
    whole = tandem.train(**small)
    place = tmp_path / "killed"
    kill = "lambda update: update.checkpoint() if update['updates'] < 3 else os.kill(os.getpid(), signal.SIGKILL)"
    given = {**small, "run_dir": str(place)}
    program = f"import os, signal, tandem\ntandem.train(**{given!r}, on_update={kill})\n"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == -signal.SIGKILL
    assert tandem.resume(place, quiet=True).summary["state_sha256"] == whole.summary["state_sha256"]
