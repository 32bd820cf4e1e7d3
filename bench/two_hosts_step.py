#!/usr/bin/env python3
"""How long does a training step of ranks on two hosts take, against the time that the wire between them needs?

    sudo bench/two_hosts_step.py [--build build/release] [--rate-mbit 1000] [--ranks 4] [--smoke]

The hosts are network namespaces of this machine with a cable that a token bucket (tc tbf) limits. Measures what plain
TCP brings across it, both ways at a time, then runs bench/sync/step_bench and prints a few lines for each of its
networks: the bytes that each host must send for the gradients, 2 (h - 1) / h times theirs; the sums of the gradients
when nothing is computed, a step from the first buckets on, that is, from when all ranks have one and computing is
hidden behind the wire, and a whole step, as multiples of what these bytes take at the cable's rate, which counts
headers too, and over plain TCP; and what a step takes when each rank trains alone, which is all computing. On a machine
with fewer cores than ranks that takes longer, and more of it comes before the first buckets. All of it once more with
--encrypt all, as multiples of the times without.
Needs root, ip, tc, unshare and nsenter.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness.two_hosts import ADDRESSES, HOSTS, run_ranks, two_hosts

TCP_PORT = 29400


def meet(end: str) -> socket.socket:
    if end == "first":
        with socket.create_server((ADDRESSES[0], TCP_PORT)) as server:
            server.settimeout(30)
            return server.accept()[0]
    for _ in range(100):
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection((ADDRESSES[0], TCP_PORT))
        time.sleep(0.05)
    raise SystemExit("the first host does not listen")


def transfer(end: str, megabytes: int) -> None:
    """One end of the plain transfer. Prints Mbit/s each way."""
    with meet(end) as connection:
        connection.settimeout(60)
        connection.sendall(b"x")
        connection.recv(1)
        start = time.monotonic()
        sender = threading.Thread(target=connection.sendall, args=(bytes(megabytes * 1_000_000),))
        sender.start()
        left = megabytes * 1_000_000
        while left > 0:
            part = len(connection.recv(1 << 20))
            if part == 0:
                raise SystemExit("the other end went away")
            left -= part
        sender.join()
        print(megabytes * 8 / (time.monotonic() - start))


def plain_tcp_mbit(hosts: list[int], megabytes: int) -> float:
    ends = [
        subprocess.Popen(
            ["nsenter", "-t", str(host), "-n", sys.executable, __file__, "--transfer", end, str(megabytes)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for host, end in zip(hosts, ("first", "second"))
    ]
    return min(float(end.communicate()[0]) for end in ends)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--rate-mbit", type=int, default=1000)
    parser.add_argument("--ranks", type=int, choices=(2, 4, 8), default=4, help="of both hosts together")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--transfer", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.transfer:
        return transfer(options.transfer[0], int(options.transfer[1]))
    program = options.build.resolve() / "bin" / "step_bench"
    with two_hosts(options.rate_mbit) as hosts:
        tcp_mbit = plain_tcp_mbit(hosts, 5 if options.smoke else 200)
        print(f"plain TCP over the cable of {options.rate_mbit} Mbit/s: {tcp_mbit:.0f} Mbit/s each way", flush=True)
        ms: dict[str, float] = {}
        arguments = ["--smoke"] if options.smoke else []
        encrypted = {
            line["case"]: line["value"]
            for line in run_ranks(hosts, options.ranks, program, arguments, {"STEP_BENCH_ENCRYPT": "all"})
        }
        for line in run_ranks(hosts, options.ranks, program, arguments):
            network, case = line["case"].split(", ", 1)
            ms[case] = line["value"]
            if case != "the sums":
                continue
            sent = 2 * (HOSTS - 1) / HOSTS * 4e6 * float(network.split("M", 1)[0])
            wire_ms = sent * 8 / (options.rate_mbit * 1e6) * 1e3
            print(f"{network}: {sent / 1e6:.1f} MB a host take {wire_ms:.1f} ms at {options.rate_mbit} Mbit/s")
            for case in ("the sums", "from the first buckets", "a step"):
                times = ms[case] / wire_ms
                by_tcp = times * tcp_mbit / options.rate_mbit
                more = encrypted[f"{network}, {case}"] / ms[case]
                print(f"  {case}: {ms[case]:.1f} ms, {times:.2f} times that, and {by_tcp:.2f} times plain TCP; "
                      f"encrypted {more:.2f} times as long")
            print(f"  a step alone: {ms['a step'] - ms['added']:.1f} ms", flush=True)


if __name__ == "__main__":
    sys.exit(main())
