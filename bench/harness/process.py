"""Runs one program to its end, with a deadline, and says what it took: wall time and memory."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model import Failed

# Settings of the caller's shell that would change what is measured.
NEUTRAL = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")
LOOK_EVERY_S = 0.02
WATCH_EVERY_S = 0.001


@dataclass(frozen=True)
class Finished:
    started_at: float  # time.monotonic(), which all processes of a machine share
    wall_s: float
    peak_rss_mb: float  # of the process itself, in 10^6 bytes
    watched_s: float | None  # from the start until `watch` said yes
    stdout: str


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_s: float = 900,
    watch: Callable[[], bool] | None = None,
) -> Finished:
    """Throws Failed, with the end of what the program printed, when it does not return 0 within the time.

    It runs in `folder`, or else where the caller is. `watch` is asked every millisecond until it says yes: for things
    that a program does on its way.
    """
    words = [str(word) for word in command]
    variables = {name: value for name, value in os.environ.items() if name not in NEUTRAL} | dict(environment or {})
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.monotonic()
        try:
            child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=variables,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise Failed(f"{words[0]} cannot be started: {error.strerror}") from error
        try:
            status, usage, watched = _wait(child.pid, started, timeout_s, watch)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            os.wait4(child.pid, 0)
            raise
        finally:
            child.returncode = 0  # it was waited for here; Popen must not do it again
        wall = time.monotonic() - started
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            raise Failed(f"{shlex.join(words)} ended with {code}:\n{_end_of(out, err)}")
        out.seek(0)
        unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, kibibytes elsewhere
        return Finished(started, wall, usage.ru_maxrss * unit / 1e6, watched, out.read())


def _wait(pid: int, started: float, timeout_s: float, watch: Callable[[], bool] | None):
    watched = None
    while True:
        waited, status, usage = os.wait4(pid, os.WNOHANG)
        if watch is not None and watched is None and watch():
            watched = time.monotonic() - started
        if waited:
            return status, usage, watched
        if time.monotonic() - started > timeout_s:
            raise Failed(f"process {pid} was killed: it did not end within {timeout_s:.0f} s")
        time.sleep(WATCH_EVERY_S if watch is not None and watched is None else LOOK_EVERY_S)


def _end_of(*files) -> str:
    text = ""
    for file in files:
        file.seek(0)
        text += file.read()
    return "\n".join(text.splitlines()[-15:])
