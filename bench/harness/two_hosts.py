"""Two hosts of one machine: network namespaces with a cable between them that a token bucket (tc tbf) limits. Needs
root, ip, tc, unshare and nsenter."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

HOSTS = 2
CABLE = "cable"
BURST = 256 * 1024
ADDRESSES = [f"192.0.2.{number + 1}" for number in range(HOSTS)]
STORE_PORT = 29500
SECRET = "of two hosts on one machine"


def on(host: int, *command: str) -> None:
    subprocess.run(["nsenter", "-t", str(host), "-n", *command], check=True)


@contextlib.contextmanager
def two_hosts(rate_mbit: int) -> Iterator[list[int]]:
    """The processes that hold the namespaces; all is gone with them."""
    holders = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(HOSTS)]
    try:
        own = os.readlink("/proc/self/ns/net")
        hosts = [holder.pid for holder in holders]
        while any(os.readlink(f"/proc/{host}/ns/net") == own for host in hosts):
            if any(holder.poll() is not None for holder in holders):
                raise SystemExit("no network namespaces: is this root?")
        on(hosts[0], "ip", "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", str(hosts[1]))
        for number, host in enumerate(hosts):
            on(host, "ip", "link", "set", "lo", "up")
            on(host, "ip", "address", "add", f"{ADDRESSES[number]}/24", "dev", CABLE)
            on(host, "ip", "link", "set", CABLE, "up")
            limit = ["rate", f"{rate_mbit}mbit", "burst", str(BURST), "latency", "50ms"]
            on(host, "tc", "qdisc", "add", "dev", CABLE, "root", "tbf", *limit)
        yield hosts
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def run_ranks(
    hosts: list[int], count: int, program: Path, arguments: list[str], variables: dict[str, str] | None = None
) -> Iterator[dict]:
    """The lines of rank 0, as they come."""
    ranks = []
    try:
        for rank in range(count):
            where = {"RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": STORE_PORT}
            where |= {"TANDEM_RUN_SECRET": SECRET} | (variables or {})
            ranks.append(
                subprocess.Popen(
                    ["nsenter", "-t", str(hosts[rank * HOSTS // count]), "-n", str(program), *arguments],
                    env=os.environ | {name: str(value) for name, value in where.items()},
                    stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                )
            )
        yield from (json.loads(line) for line in ranks[0].stdout)
        if any(rank.wait() != 0 for rank in ranks):
            raise SystemExit("a rank failed")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def bytes_sent(host: int) -> int:
    """Over the cable so far, headers too."""
    counter = f"/sys/class/net/{CABLE}/statistics/tx_bytes"
    # A mount namespace of its own, in which /sys shows that host's network.
    show = ["unshare", "--mount", "sh", "-c", f"mount -t sysfs sysfs /sys && cat {counter}"]
    show = ["nsenter", "-t", str(host), "-n", *show]
    return int(subprocess.run(show, check=True, capture_output=True, text=True).stdout)
