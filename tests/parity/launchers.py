#!/usr/bin/env python3
"""Starts `tandem train` with PPO and with DD-PPO, and examples/fashion_mnist, as two ranks by torchrun, mpirun and as
srun does; each must end as the same training in one process does.

usage: launchers.py PATH/TO/tandem PATH/TO/fashion_mnist DATA

torchrun is this Python's, mpirun the system's. srun needs a cluster's daemons, so its ranks are started with the
variables that it gives them. DATA: the folder of Fashion-MNIST, of which the first images are taken.
"""
import functools
import gzip
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

from processes import end

RANKS, PATIENCE_S = 2, 240
IMAGES = {"train": 4096, "t10k": 1024}
TRAINING = ["train", "--env", "CartPole-v1", "--seed", "11", "--shards", "2", "--num-envs", "8",
            "--rollout-steps", "32", "--minibatches", "4", "--total-steps", "4096", "--quiet"]


def by_torchrun(command):
    flags = ["--no-python", "--nproc-per-node", str(RANKS), "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    return [run([sys.executable, "-m", "torch.distributed.run", *flags, *command])]


def by_mpirun(command):
    flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS)]
    return [run(["mpirun", *flags, *command])]


def by_srun(command):
    """Two tasks of a step on this host, as srun's manual lists what they are told."""
    of_step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NTASKS": str(RANKS), "SLURM_NNODES": "1",
               "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_NODELIST": "localhost", "SLURM_NODEID": "0",
               "SLURM_STEP_NUM_TASKS": str(RANKS), "MASTER_PORT": str(free_port())}
    return [run(command, **of_step, SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank)) for rank in range(RANKS)]


LAUNCHERS = {"torchrun": by_torchrun, "mpirun": by_mpirun, "srun": by_srun}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command, **variables):
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1", **variables}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def outputs_of(processes):
    """What they printed to stdout, all in one; RuntimeError when one fails."""
    texts = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=PATIENCE_S)
            if process.returncode != 0:
                raise RuntimeError(f"{process.args[0]} ended with {process.returncode}: {out[-2000:]}{err[-2000:]}")
            texts.append(out)
    finally:
        for process in processes:
            end(process)
    return "".join(texts)


def first_images(data, to):
    """Smaller files in the same format: a big-endian header, whose second number is the count, and then items."""
    for name, count in IMAGES.items():
        for kind, header, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
            file = f"{name}-{kind}-ubyte.gz"
            content = gzip.open(data / file).read(header + count * size)
            content = content[:4] + struct.pack(">i", count) + content[8:]
            (to / file).write_bytes(gzip.compress(content, 1))


def training(tandem, _data, folder, algo):
    run_folder = folder / "run"
    return ([tandem, *TRAINING, "--algo", algo, "--run-dir", str(run_folder)],
            lambda _printed: json.loads((run_folder / "summary.json").read_text())["state_sha256"])


def classifying(program, data, _folder):
    def state_in(printed):
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        if len(lines) != 1:
            raise RuntimeError(f"one line of JSON was expected, not {len(lines)}: {printed[-2000:]}")
        return json.loads(lines[0])["state_sha256"]

    return [program, "--data", str(data), "--shards", "2", "--epochs", "1"], state_in


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    tandem, fashion_mnist, data = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if shutil.which("mpirun") is None:
        raise SystemExit("there is no mpirun; tools/bootstrap --parity installs Open MPI on Debian")
    faults = []
    with tempfile.TemporaryDirectory() as name:
        few = pathlib.Path(name) / "data"
        few.mkdir()
        first_images(data, few)
        for what, make, program in (("ppo", functools.partial(training, algo="ppo"), tandem),
                                    ("dd_ppo", functools.partial(training, algo="dd_ppo"), tandem),
                                    ("fashion_mnist", classifying, fashion_mnist)):
            states = {}
            for launcher in ("alone", *LAUNCHERS):
                folder = pathlib.Path(name) / f"{what}-{launcher}"
                folder.mkdir()
                command, state_in = make(program, few, folder)
                try:
                    processes = [run(command)] if launcher == "alone" else LAUNCHERS[launcher](command)
                    states[launcher] = state_in(outputs_of(processes))
                except (RuntimeError, OSError, subprocess.TimeoutExpired, KeyError) as fault:
                    faults.append(f"{what} by {launcher}: {fault}")
                    continue
                print(f"{what} by {launcher}: {states[launcher]}", flush=True)
                if states[launcher] != states.get("alone"):
                    faults.append(f"{what} by {launcher} ends with another state than alone")
    for fault in faults:
        print(f"FAULT: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
