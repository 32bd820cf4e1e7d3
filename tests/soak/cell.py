"""A place where one fault leaves nothing to others: namespaces of its own for processes, network, files and memory.

So whatever is there at the end was left by the run, and the cell takes it along when its first process ends.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

DISK = 64 << 20  # bytes, of the disk that holds the run folder
UNSHARE = ("unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
ENTRIES_OF_SHM = Path("/dev/shm")


def command(words: list[str]) -> list[str]:
    """`words` as the first process of a cell. Who is not root is root of a user namespace."""
    return [*UNSHARE, *([] if os.geteuid() == 0 else ["--map-root-user"]), "--", *words]


def furnish(folder: Path) -> None:
    """A disk of its own at `folder`, an empty /dev/shm, and a loopback that works."""
    _run("mount", "-t", "tmpfs", "-o", f"size={DISK}", "soak", str(folder))
    _run("mount", "-t", "tmpfs", "soak", str(ENTRIES_OF_SHM))
    _run("ip", "link", "set", "lo", "up")
    (folder / "tmp").mkdir()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def fill_disk(folder: Path, left: int) -> Path:
    """Leaves `left` bytes of the disk."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 20))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        size = file.tell()
        file.truncate(max(0, size - left))
    return filler


def sockets() -> list[str]:
    """What listens, or lies about: this network is nobody else's."""
    found = []
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        found.append("unix " + " ".join(line.split()[3:]))
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.append(f"{name} {fields[1]} listens")
    return found


def left_outside(folder: Path) -> list[str]:
    """Entries of /dev/shm, of the folder for temporary files, and sockets."""
    found = [f"/dev/shm/{entry.name}" for entry in ENTRIES_OF_SHM.iterdir()]
    found += [f"tmp/{entry.name}" for entry in (folder / "tmp").iterdir()]
    return found + sockets()
