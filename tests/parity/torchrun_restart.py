#!/usr/bin/env python3
"""Runs `tandem train` under torchrun, which starts it again each time that a rank is killed; the end must be the same.

usage: torchrun_restart.py PATH/TO/tandem

Rank 0 is killed while it writes its third checkpoint, in each start anew. Exits with 1 when the run does not end, or ends
with another state_sha256 than one that nobody killed.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SETTINGS = ["--env", "CartPole-v1", "--seed", "11", "--shards", "4", "--num-envs", "8", "--rollout-steps", "32", "--epochs", "2",
            "--total-steps", "3072", "--set", "checkpoint.every_updates=2", "--quiet"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def state(folder):
    return json.loads((folder / "summary.json").read_text())["state_sha256"]


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    tandem = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        whole, restarted = folder / "whole", folder / "restarted"
        subprocess.run([tandem, "train", *SETTINGS, "--run-dir", whole], check=True, timeout=120)
        # Six checkpoints, two for each start.
        done = subprocess.run([*TORCHRUN, "--no-python", "--nproc-per-node", "2", "--max-restarts", "5", "--monitor-interval", "0.1",
                               "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
                               tandem, "train", *SETTINGS, "--run-dir", restarted, "--resume", "auto"],
                              env={**os.environ, "TANDEM_FAULT": "checkpoint.before_manifest:3:kill", "OMP_NUM_THREADS": "1"},
                              capture_output=True, text=True, timeout=240)
        if done.returncode != 0:
            print(done.stdout + done.stderr)
            print(f"FAULT: torchrun ended with {done.returncode}")
            return 1
        starts = (restarted / "log.txt").read_text().count("process ")
        print(f"{starts} starts; state {state(restarted)}, without a kill {state(whole)}")
        if starts < 2 or state(restarted) != state(whole):
            print("FAULT: the run was not restarted, or came to another end")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
