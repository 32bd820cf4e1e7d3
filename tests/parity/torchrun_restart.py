#!/usr/bin/env python3
"""Runs `tandem train` under torchrun, which starts it again each time that a rank is killed; the end must be the same.

usage: torchrun_restart.py PATH/TO/tandem [SEED]

Once rank 0 is killed while it writes its third checkpoint, in each start anew; once any rank at random instants, every
other time while they start. Exits with 1 when a run does not end, or ends with another state_sha256 than one that
nobody killed.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from processes import end

RANKS, KILLS = 2, 6
UPDATE_STEPS = 8 * 32  # environments x rows
SETTINGS = ["--env", "CartPole-v1", "--seed", "11", "--shards", "4", "--num-envs", "8",
            "--rollout-steps", "32", "--epochs", "2", "--quiet"]
PATIENCE_S = 240


def train(tandem, folder, updates, every_updates):
    return [tandem, "train", *SETTINGS, "--total-steps", str(updates * UPDATE_STEPS), "--run-dir", folder,
            "--set", f"checkpoint.every_updates={every_updates}"]


def torchrun(command, restarts, output, **environment):
    """The training under torchrun, started; what they print goes to the file `output`."""
    flags = ["--no-python", "--nproc-per-node", str(RANKS), "--max-restarts", str(restarts),
             "--monitor-interval", "0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    with output.open("w") as file:
        return subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *flags, *command, "--resume", "auto"],
                                env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, stdout=file, stderr=file)


def fault_of_end(run, restarted, whole, starts_wanted):
    """What is wrong with the end of a run under torchrun; nothing when it is that of the whole one."""
    try:
        run.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        end(run)
        return f"torchrun did not end within {PATIENCE_S} s"
    if run.returncode != 0:
        return f"torchrun ended with {run.returncode}"
    states = [summary_state(folder) for folder in (restarted, whole)]
    starts = len(re.findall(r"tandem \S+, process ", (restarted / "log.txt").read_text()))
    print(f"{starts} starts; state {states[0]}, without a kill {states[1]}")
    if starts < starts_wanted or states[0] != states[1]:
        return "the run was not restarted, or came to another end"
    return None


def summary_state(folder):
    return json.loads((folder / "summary.json").read_text())["state_sha256"]


def updates_in(folder):
    with contextlib.suppress(FileNotFoundError):
        return (folder / "metrics.jsonl").read_text().count("\n")
    return 0


def ranks_of(run):
    """The processes that torchrun has running, by rank."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{run.pid}\n" not in (process / "status").read_text():
                continue
            words = (process / "environ").read_text().split("\0")
            variables = dict(word.split("=", 1) for word in words if "=" in word)
            if "RANK" in variables:
                found[int(variables["RANK"])] = int(process.name)
    return found


def wait_until(run, reached, what):
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        if run.poll() is not None:
            raise RuntimeError(f"torchrun ended with {run.returncode} before {what}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{PATIENCE_S} s were too short for {what}")
        time.sleep(0.002)


def has_started_again(run, gone):
    """Whether all ranks are there, none of them in a process of `gone`."""
    now = ranks_of(run)
    return len(now) == RANKS and not set(gone.values()) & set(now.values())


def killed_within_checkpoints(tandem, folder):
    whole, restarted, output = folder / "whole", folder / "restarted", folder / "torchrun.txt"
    subprocess.run(train(tandem, whole, 12, 2), check=True, timeout=PATIENCE_S)
    # Six checkpoints, two for each start.
    run = torchrun(train(tandem, restarted, 12, 2), 5, output, TANDEM_FAULT="checkpoint.before_manifest:3:kill")
    return fault_of_end(run, restarted, whole, 2)


def killed_at_random_instants(tandem, folder, seed):
    dice = random.Random(seed)
    updates = 7000
    part = updates // (KILLS + 1)  # the next kill comes before so many more are made, however fast the machine is
    whole, restarted, output = folder / "whole", folder / "restarted", folder / "torchrun.txt"
    subprocess.run(train(tandem, whole, updates, 200), check=True, timeout=PATIENCE_S)
    run = torchrun(train(tandem, restarted, updates, 200), KILLS + 2, output)
    gone = {}
    try:
        for kill in range(1, KILLS + 1):
            victim, while_starting = dice.randrange(RANKS), kill % 2 == 0
            least, most = (kill - 1) * part + dice.randrange(part // 2), kill * part
            instant = dice.uniform(0, 1.5 if while_starting else 0.1)
            after = "its start" if while_starting else f"update {least}"
            what = f"kill {kill} of seed {seed}: rank {victim}, {instant:.3f} s after {after}"
            wait_until(run, lambda: has_started_again(run, gone), what)
            if not while_starting:
                wait_until(run, lambda: updates_in(restarted) >= least, what)
            until = time.monotonic() + instant
            wait_until(run, lambda: time.monotonic() >= until or updates_in(restarted) >= most, what)
            print(what + f", which is after update {updates_in(restarted)}", flush=True)
            gone = ranks_of(run)
            os.kill(gone[victim], signal.SIGKILL)
    except (RuntimeError, KeyError, ProcessLookupError) as fault:
        end(run)
        return f"{type(fault).__name__}: {fault}"
    return fault_of_end(run, restarted, whole, KILLS // 2 + 1)


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    tandem, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 5
    faults = []
    for run in (killed_within_checkpoints, lambda *where: killed_at_random_instants(*where, seed)):
        with tempfile.TemporaryDirectory() as name:
            if (fault := run(tandem, pathlib.Path(name))) is not None:
                print((pathlib.Path(name) / "torchrun.txt").read_text())
                faults.append(fault)
    for fault in faults:
        print(f"FAULT: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
