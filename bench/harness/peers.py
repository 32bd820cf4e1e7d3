"""The Python environments of peers: .venv/bench/NAME, each from a file of pinned versions in bench/peers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.model import Unavailable

INSTALL_LIMIT_S = 1800


class PeerEnvironments:
    """Makes environments when they are first asked for, and keeps them until their pins change."""

    def __init__(self, root: Path, install: bool):
        self._root = root
        self._install = install
        self._pythons: dict[str, Path | Unavailable] = {}

    def python(self, name: str, requirements: str) -> Path:
        """The interpreter of environment `name`, with what bench/peers/`requirements` lists. Throws Unavailable."""
        if name not in self._pythons:
            try:
                self._pythons[name] = self._make(
                    self._root / ".venv" / "bench" / name, self._root / "bench" / "peers" / requirements
                )
            except Unavailable as why:
                self._pythons[name] = why
        found = self._pythons[name]
        if isinstance(found, Unavailable):
            raise found
        return found

    def _make(self, folder: Path, requirements: Path) -> Path:
        pins, mark, python = requirements.read_text(), folder / ".pins", folder / "bin" / "python"
        if mark.exists() and mark.read_text() == pins and python.exists():
            return python
        if not self._install:
            raise Unavailable("not installed; run the bench without --no-install")
        print(
            f"bench: installing {requirements.name} into {folder.relative_to(self._root)}", file=sys.stderr, flush=True
        )
        shutil.rmtree(folder, ignore_errors=True)
        self._run([sys.executable, "-m", "venv", folder])
        self._link_torch(folder, pins)
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
        mark.write_text(pins)
        return python

    def _link_torch(self, folder: Path, pins: str) -> None:
        """The wheel that tools/bootstrap unpacked, where it is the same: links cost neither a download nor space."""
        wanted = next((line.split("==")[1] for line in pins.splitlines() if line.startswith("torch==")), None)
        for source in (self._root / ".venv" / "libtorch").glob(f"lib/python3*/site-packages/torch-{wanted}*.dist-info"):
            target = next(folder.glob("lib/python3*/site-packages"))
            for part in ("torch", "torchgen", "functorch", source.name):
                shutil.copytree(source.parent / part, target / part, copy_function=_link_or_copy)

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


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
