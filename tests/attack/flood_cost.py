#!/usr/bin/env python3
"""Question: what do strangers cost a run, who stand at each of its doors and come and go there?

    flood_cost.py TANDEM [--pairs 5] [--steps 200000] [--idle 40] [--flood 400] [--where loopback|namespaces]

The same training of two ranks over TCP runs undisturbed and attacked in turn; which comes first changes from pair to
pair. Attacked: at each door 40 connections stand idle at all times, and 400 others come and go in each second, all of
user nobody. Over loopback the doors are abstract sockets of one host; in namespaces they are TCP ports of two, and one
stranger stands in each.

The strangers have a core of their own, and all ranks together another one: what it takes to make a flood is no cost of
the run, but what its doors do with it is. A line for each run has its wall time, the processor time of its ranks, and
how many came; the last one the ratios of the medians. Needs root and two cores.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
from harness.two_hosts import ADDRESSES, CABLE, two_hosts  # noqa: E402

NOBODY = 65534
PORT = 29581
CORE_OF_RANKS, CORE_OF_STRANGERS = "0", "1"
SECRET = "of a run that strangers besiege"


def enter(host: int | None, core: str) -> list[str]:
    return [*([] if host is None else ["nsenter", "-t", str(host), "-n"]), "taskset", "-c", core]


class Siege:
    """The strangers, one in each network namespace."""

    def __init__(self, hosts: list, idle: int, flood: int):
        # Ports that listened before are not the run's.
        ours = [str(port) for port in listening_ports()] if hosts == [None] else []
        command = [sys.executable, str(HERE / "stranger.py"), "--press", "--user", str(NOBODY), "--idle", str(idle),
                   "--flood", str(flood), "--not", ",".join(ours)]
        self._strangers = [
            subprocess.Popen([*enter(host, CORE_OF_STRANGERS), *command], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
            for host in hosts
        ]

    def end(self) -> tuple[int, int]:
        """How many came to how many doors."""
        came, doors = 0, set()
        for stranger in self._strangers:
            its = json.loads(stranger.communicate("\n", timeout=60)[0])
            came += sum(sum(door["knocks"].values()) for door in its.values())
            doors |= set(its)
            if any(door["believed"] for door in its.values()):
                raise SystemExit(f"a stranger was believed: {its}")
        return came, len(doors)


def listening_ports() -> list[int]:
    sys.path.insert(0, str(HERE))
    import stranger

    return [int(where.rpartition(":")[2]) for _, where in stranger.Tables().tcp_doors(set(), not_of=None)]


def train(options: argparse.Namespace, hosts: list) -> dict:
    """One run: its wall time, the processor time of its ranks, and its state."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [options.tandem, "train", "--env", "CartPole-v1", "--seed", "5", "--shards", "2", "--quiet",
                   "--backend", "tcp", "--total-steps", str(options.steps), "--run-dir", f"{scratch}/run"]
        address = "127.0.0.1" if hosts == [None] else ADDRESSES[0]
        command += [] if hosts == [None] else ["--network", CABLE]
        begin = time.monotonic()
        ranks = []
        for rank in range(2):
            variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_ADDR": address, "MASTER_PORT": PORT,
                         "OMP_NUM_THREADS": 1, "TANDEM_RUN_SECRET": SECRET}
            environment = os.environ | {name: str(value) for name, value in variables.items()}
            ranks.append(subprocess.Popen([*enter(hosts[rank % len(hosts)], CORE_OF_RANKS), *command],
                                          env=environment, stderr=subprocess.DEVNULL))
        cpu_s = 0.0
        for rank in ranks:
            _, status, usage = os.wait4(rank.pid, 0)
            rank.returncode = os.waitstatus_to_exitcode(status)
            cpu_s += usage.ru_utime + usage.ru_stime
            if rank.returncode != 0:
                raise SystemExit(f"a rank ended with exit code {rank.returncode}")
        wall_s = time.monotonic() - begin
        state = json.loads(Path(f"{scratch}/run/summary.json").read_text())["state_sha256"]
        return {"wall_s": round(wall_s, 3), "cpu_s": round(cpu_s, 3), "state_sha256": state}


def measure(options: argparse.Namespace, hosts: list) -> None:
    runs = {False: [], True: []}
    for pair in range(options.pairs):
        for attacked in (False, True) if pair % 2 == 0 else (True, False):
            siege = Siege(hosts, options.idle, options.flood) if attacked else None
            run = train(options, hosts)
            if siege is not None:
                run["strangers"], run["doors"] = siege.end()
            runs[attacked].append(run)
            print(json.dumps({"attacked": attacked} | run), flush=True)
    if len({run["state_sha256"] for run in runs[False] + runs[True]}) != 1:
        raise SystemExit("the runs ended in different states")
    ratios = {
        f"{name}_ratio": round(statistics.median(run[name] for run in runs[True])
                               / statistics.median(run[name] for run in runs[False]), 4)
        for name in ("wall_s", "cpu_s")
    }
    print(json.dumps({"where": options.where, "pairs": options.pairs, "idle": options.idle,
                      "flood_per_s": options.flood} | ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=Path)
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kind (5)")
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps of a run (200000)")
    parser.add_argument("--idle", type=int, default=40, help="connections that stand at each door (40)")
    parser.add_argument("--flood", type=int, default=400, help="connections to each door in a second (400)")
    parser.add_argument("--where", choices=["loopback", "namespaces"], default="loopback")
    options = parser.parse_args()
    if options.where == "loopback":
        measure(options, [None])
        return
    with two_hosts(10_000) as hosts:
        measure(options, hosts)


if __name__ == "__main__":
    main()
