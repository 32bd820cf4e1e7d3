"""The Python environments of peers: .venv/bench/NAME, each from a file of pinned versions in bench/peers."""

from __future__ import annotations

import csv
import enum
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.model import Unavailable

INSTALL_LIMIT_S = 1800


class Peers(enum.Enum):
    ALL = "all"  # those that are not there are installed
    INSTALLED = "installed"
    NONE = "none"


class PeerEnvironments:
    """Makes environments when they are first asked for, and keeps them until their pins change.

    bench/peers/NAME_install.py, where there is one, is run by the new environment's Python when its pins are in: for
    what no index has in a form that installs by itself.
    """

    def __init__(self, root: Path, which: Peers):
        self._root = root
        self._which = which
        self._pythons: dict[str, Path | Unavailable] = {}

    def python(self, name: str, requirements: str) -> Path:
        """The interpreter of environment `name`, with what bench/peers/`requirements` lists. Throws Unavailable."""
        if self._which is Peers.NONE:
            raise Unavailable("left out, by --no-peers")
        if name not in self._pythons:
            try:
                self._pythons[name] = self._make(
                    self._root / ".venv" / "bench" / name, (self._root / "bench" / "peers" / requirements).resolve()
                )
            except Unavailable as why:
                self._pythons[name] = why
        found = self._pythons[name]
        if isinstance(found, Unavailable):
            raise found
        return found

    def _make(self, folder: Path, requirements: Path) -> Path:
        recipe = requirements.parent / f"{folder.name}_install.py"
        pins = requirements.read_text() + (recipe.read_text() if recipe.exists() else "")
        mark, python = folder / ".pins", folder / "bin" / "python"
        if mark.exists() and mark.read_text() == pins and python.exists():
            return python
        if self._which is not Peers.ALL:
            raise Unavailable("not installed; run the bench without --no-install")
        print(
            f"bench: installing {requirements.name} into {folder.relative_to(self._root)}", file=sys.stderr, flush=True
        )
        shutil.rmtree(folder, ignore_errors=True)
        self._run([sys.executable, "-m", "venv", folder])
        self._link_wheels(folder, requirements.read_text())
        self._run(
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-input",
                "--no-deps",
                "--no-compile",
                "-r",
                requirements,
            ]
        )
        if recipe.exists():
            self._run([python, recipe])
        mark.write_text(pins)
        return python

    def _link_wheels(self, folder: Path, pins: str) -> None:
        """What another environment has unpacked in the same version: links cost neither a download nor space."""
        target = next(folder.glob("lib/python3*/site-packages"))
        places = sorted((self._root / ".venv").glob("**/lib/python3*/site-packages"))
        for name, version in (line.split("==") for line in pins.splitlines() if "==" in line and line[0] != "#"):
            unpacked = f"{name.replace('-', '_')}-{version}.dist-info"
            others = (place for place in places if place != target)
            source = next((place for place in others if (place / unpacked / "RECORD").exists()), None)
            if source is not None:
                link_distribution(source, unpacked, target)

    def _run(self, command: list) -> None:
        try:
            done = subprocess.run(
                [str(word) for word in command], capture_output=True, text=True, timeout=INSTALL_LIMIT_S
            )
        except subprocess.TimeoutExpired as late:
            raise Unavailable(f"installing it took more than {INSTALL_LIMIT_S} s") from late
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise Unavailable(f"it could not be installed: {lines[-1]}")


def link_distribution(source: Path, unpacked: str, target: Path) -> None:
    with (source / unpacked / "RECORD").open(newline="") as record:
        names = [row[0] for row in csv.reader(record) if row]
    for name in names:
        if name.startswith("..") or not (source / name).exists():  # programs, which name their own environment
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        _link_or_copy(source / name, target / name)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:  # distributions may have a file in common; writing through a link would change others' too
        target.unlink()
        _link_or_copy(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
