"""The processes of a cell (cell.py): all but this one, which is the first and so the parent of every orphan."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

from commands import Start

TICK_S = 0.01
PAUSE_S = 5.0  # no machine is so busy; somebody has stopped us

KEPT_VARIABLES = ("PATH", "HOME", "LD_LIBRARY_PATH", "LANG", "TZ", "UBSAN_OPTIONS", "ASAN_OPTIONS")


class Ticks:
    """Time that counts only while this program runs: a wait is so many naps. A gap between two tells of a pause."""

    def __init__(self):
        self.was_paused = False
        self._last = time.monotonic()

    def nap(self) -> None:
        time.sleep(TICK_S)
        now = time.monotonic()
        self.was_paused = self.was_paused or now - self._last > PAUSE_S
        self._last = now

    def wait(self, is_over, seconds: float) -> bool:
        """Returns whether it was over within so many seconds' worth of naps."""
        for _ in range(max(1, int(seconds / TICK_S))):
            if is_over():
                return True
            self.nap()
        return is_over()


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


class Tree:
    def __init__(self, folder: Path, variables: dict[str, str] | None = None):
        """`variables`: of all that is started."""
        self.folder = folder
        self._variables = variables or {}
        self.roots: list[int] = []
        self.codes: dict[int, int] = {}  # of processes that have ended: as of a shell, 128 + the signal
        self._started = 0

    def start(self, start: Start, limits: dict[int, int] | None = None, closed: tuple[int, ...] = (),
              pipe: int | None = None) -> int:
        """Its output goes into files, or into `pipe`; the descriptors of `closed` are closed."""
        self._started += 1
        variables = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        variables |= {"TMPDIR": str(self.folder / "tmp"), "OMP_NUM_THREADS": "1"} | self._variables
        variables |= start.variables
        out = os.open(self.folder / f"out.{self._started}", os.O_WRONLY | os.O_CREAT, 0o600)
        nothing = os.open("/dev/null", os.O_RDONLY)
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)  # who pauses the soak pauses no run by halves
                for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_DFL)
                for descriptor, source in enumerate((nothing, pipe or out, pipe or out)):
                    os.dup2(source, descriptor)
                os.closerange(3, 256)
                for which, most in (limits or {}).items():
                    resource.setrlimit(which, (most, most))
                for descriptor in closed:
                    os.close(descriptor)
                os.execvpe(start.words[0], start.words, variables)
            finally:
                os._exit(127)
        os.close(out)
        os.close(nothing)
        self.roots.append(pid)
        return pid

    def reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.codes[pid] = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        except ChildProcessError:
            return

    def living(self) -> list[int]:
        """All that are no zombies."""
        self.reap()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    if _stat(int(name))[0] not in "ZX":
                        found.append(int(name))
                except OSError:
                    continue
        return found

    def has_ended(self) -> bool:
        self.reap()
        return all(root in self.codes for root in self.roots)

    def ranks(self) -> dict[int, int]:
        """The living processes with a RANK; not those that they have started, which have it, too."""
        found: dict[int, int] = {}
        for pid in sorted(self.living()):
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for variable in variables:
                if variable.startswith(b"RANK="):
                    found.setdefault(int(variable[5:]), pid)
        return found

    def describe(self, pid: int) -> str:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[-300:]
            return f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()} {_stat(pid)[0]} {words}"
        except OSError:
            return f"{pid} gone"

    def end_all(self) -> None:
        for pid in self.living():
            signal_process(pid, signal.SIGKILL)

    def output(self, most: int = 4000) -> str:
        texts = [file.read_text(errors="replace") for file in sorted(self.folder.glob("out.*"))]
        return "\n".join(text[-most:] for text in texts if text)


def signal_process(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False
