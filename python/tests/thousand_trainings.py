#!/usr/bin/env python3
"""Many trainings in one process leave nothing behind: no memory, no thread, no descriptor, no child process.

    PYTHONPATH=build/release/python .venv/python/bin/python python/tests/thousand_trainings.py [TRAININGS]

They go through ten kinds in turn: environments in worker processes, runs that are stopped, resumed, changed or that
fail, several replicas, other algorithms. What is held after a tenth of them all may not have grown at the end; memory
by no more than 1 kB a training. Prints what was held. TRAININGS: ten or more.
"""

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import gymnasium

import tandem

MORE_KB_EACH = 1.0


class Pole:
    """Not a class of gymnasium's own, so that it is made in a worker."""

    def __call__(self) -> gymnasium.Env:
        return gymnasium.make("CartPole-v1")


def fail(update):
    raise LookupError("as asked")


def train(number: int, folder: Path) -> None:
    its = {
        "env": "CartPole-v1",
        "num_envs": 2,
        "rollout_steps": 8,
        "total_steps": 48,
        "policy": {"hidden": [8]},
        "ppo": {"epochs": 1, "minibatches": 1},
        "seed": number,
        "quiet": True,
        "run_dir": folder / "run",
    }
    match number % 10:
        case 0:
            its["env"] = Pole()
            tandem.train(**its)
        case 1:
            run = tandem.train(**its, on_update=lambda update: False)
            tandem.resume(run, quiet=True)
        case 2:
            try:
                tandem.train(**its, on_update=fail)
            except LookupError:
                pass
        case 3:
            try:
                tandem.train(**{**its, "ppo": {"gamma": 2}})
            except tandem.ConfigError:
                pass
        case 4:
            run = tandem.train(**its, on_update=lambda update: update.change(ppo={"entropy_coef": 0.1}))
            tandem.evaluate(tandem.load(run), episodes=1)
        case 5:
            tandem.train(**its, devices="cpu:2", shards=2)
        case 6:
            tandem.train(**{**its, "algo": "impala", "impala": {"workers": 1}, "ppo": {}})
        case 7:
            its.pop("ppo"), its.pop("rollout_steps")
            tandem.train(**its, algo="dqn", dqn={"learning_starts": 16, "batch_size": 8, "replay_size": 100})
        case _:
            seen = []
            tandem.train(**its, on_update=seen.append, on_episode=seen.append, on_checkpoint=seen.append)
    shutil.rmtree(folder / "run", ignore_errors=True)


def held() -> dict[str, int]:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "memory, kB": int(status.split("VmRSS:")[1].split()[0]),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "children": len(children),
    }


def main() -> int:
    trainings = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(prefix="tandem-trainings-") as scratch:
        first = {}
        for number in range(trainings):
            train(number, Path(scratch))
            if number + 1 == trainings // 10:
                first = held()
            if (number + 1) % (trainings // 10) == 0:
                print(number + 1, held(), flush=True)
        last = held()
    memory = "memory, kB"
    more = last.pop(memory) - first.pop(memory)
    if last != first:
        print(f"after the first tenth it held {first}, at the end {last}", file=sys.stderr)
    if more > MORE_KB_EACH * trainings:
        print(f"{more} kB more than after the first tenth of {trainings} trainings", file=sys.stderr)
    return 0 if last == first and more <= MORE_KB_EACH * trainings else 1


if __name__ == "__main__":
    sys.exit(main())
