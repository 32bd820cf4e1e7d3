"""Hosts for the length of a test: network namespaces with names, joined by a cable.

    own_namespaces()             # first of all: this program, once more, where nobody else is
    with Hosts(["n1", "n2"]) as hosts:
        subprocess.run([*hosts.enter(1), "hostname"])

own_namespaces() starts the program anew with its own processes, host name, mounts and network. So ports are free, names
can stand in /etc/hosts, and all processes are gone with the program, whatever ends it: the first process of a namespace
takes the others with it. Needs root, ip, unshare and nsenter.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SKIPPED = 77  # the exit code by which ctest counts a test as skipped
PROGRAMS = ["ip", "unshare", "nsenter"]
PATIENCE_S = 120
INSIDE = "TANDEM_TEST_NAMESPACES"
CABLE = "cable"
LAUNCHERS = ("SLURM_", "TANDEM_", "OMPI_", "PMIX_", "TORCHELASTIC_")


def lacking(programs: list[str]) -> str:
    """What keeps hosts, and the programs, from being started here; empty when nothing does."""
    if os.geteuid() != 0:
        return "it needs root"
    absent = [program for program in [*PROGRAMS, *programs] if shutil.which(program) is None]
    return f"there is no {absent[0]}; on Debian tools/bootstrap --deploy installs what is needed" if absent else ""


def own_namespaces(*, own_network: bool = True) -> None:
    """Returns only inside. There the program is started from its beginning, with the same arguments."""
    if os.environ.get(INSIDE) == "yes":
        if own_network:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    kinds = ["--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "--uts", "--ipc"]
    os.environ[INSIDE] = "yes"
    os.execvp("unshare", ["unshare", *kinds, *(["--net"] if own_network else []), "--", sys.executable, *sys.argv])


def wait_until(what: str, holds: Callable[[], bool], patience: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"after {patience} s still not: {what}")
        time.sleep(0.05)


def environment() -> dict[str, str]:
    """With none of what a launcher around this test may have set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        kept.pop(name, None)
    return kept | {"OMP_NUM_THREADS": "1"}


def end(processes: list[subprocess.Popen]) -> None:
    for process in processes:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Hosts:
    """One host is this one; two are namespaces. Each name may come with others: "n1 n1.cluster"."""

    def __init__(self, names: list[str]):
        self.names = names
        self.addresses = [f"192.0.2.{number + 1}" for number in range(len(names))]
        self._holders: list[subprocess.Popen] = []
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> Hosts:
        try:
            self._name()
            self._connect()
        except BaseException:
            self._ending.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._ending.close()

    def enter(self, host: int) -> list[str]:
        """What a command begins with that runs there."""
        return ["nsenter", "-t", str(self._holders[host].pid), "-n", "-u"] if self._holders else []

    def _name(self) -> None:
        file = Path(self._ending.enter_context(tempfile.TemporaryDirectory())) / "hosts"
        lines = [f"{address} {name}\n" for name, address in zip(self.names, self.addresses, strict=True)]
        file.write_text("127.0.0.1 localhost\n" + "".join(lines))
        subprocess.run(["mount", "--bind", str(file), "/etc/hosts"], check=True)
        self._ending.callback(subprocess.run, ["umount", "/etc/hosts"], check=True)
        subprocess.run(["hostname", self.names[0].split()[0]], check=True)

    def _connect(self) -> None:
        if len(self.names) == 1:  # not a loopback address, for which no name is looked up
            self._on(0, "ip", "address", "replace", f"{self.addresses[0]}/24", "dev", "lo")
            return
        self._ending.callback(end, self._holders)
        for name in self.names:
            hold = f"hostname {name.split()[0]} && echo ready && exec sleep infinity"
            command = ["unshare", "--net", "--uts", "sh", "-c", hold]
            holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self._holders.append(holder)
            with holder.stdout:
                is_ready = holder.stdout.readline() == "ready\n"
            if not is_ready:
                raise AssertionError("there are no namespaces")
        first, second = self._holders
        self._on(0, "ip", "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", str(second.pid))
        for host, address in enumerate(self.addresses):
            self._on(host, "ip", "link", "set", "lo", "up")
            self._on(host, "ip", "address", "add", f"{address}/24", "dev", CABLE)
            self._on(host, "ip", "link", "set", CABLE, "up")

    def _on(self, host: int, *command: str) -> None:
        subprocess.run([*self.enter(host), *command], check=True)
