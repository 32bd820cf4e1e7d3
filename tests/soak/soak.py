#!/usr/bin/env python3
"""Disturbs short trainings of every mode, one seeded fault each, and judges how they end and whether they go on.

    soak.py build/release/bin/tandem [--faults 1000] [--outcomes build/soak/outcomes.jsonl] [--jobs N]
    soak.py build/release/bin/tandem --report
    soak.py build/release/bin/tandem --only 17 --only 230     # again, also if they have an outcome
    soak.py build/release/bin/tandem --python .venv/parity/bin/python     # 200 of environments in Python

Ctrl-C ends it; called again it goes on where it was. A run that is paused (SIGSTOP to the process group) goes on, too:
what was disturbed meanwhile is tried again. Exits with 1 when there was a complaint. Needs unshare, mount and ip, and
root or user namespaces.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cell
import modes
from outcomes import Outcomes, identity
from plan import modes_of, plan
from report import report

HERE = Path(__file__).resolve().parent
LOOK_EVERY_S = 0.1
MOST_BROKEN = 5


@dataclass
class Job:
    order: dict
    process: subprocess.Popen
    started: float


class Soak:
    """Some orders at a time, each in a cell of its own."""

    def __init__(self, programs: modes.Programs, outcomes: Outcomes, keep: Path, scratch: Path):
        self._programs = programs
        self._outcomes = outcomes
        self._keep = keep
        self._scratch = scratch
        self._jobs: list[Job] = []
        self._broken = 0

    def run(self, orders: list[dict], at_once: int, tell: Callable[[dict], None] = lambda outcome: None) -> None:
        waiting = orders[::-1]
        try:
            while waiting or self._jobs:
                while waiting and len(self._jobs) < at_once:
                    self._start(waiting.pop())
                time.sleep(LOOK_EVERY_S)
                for job in [each for each in self._jobs if each.process.poll() is not None]:
                    self._jobs.remove(job)
                    outcome = self._end(job)
                    if outcome is None:
                        waiting.append(job.order)
                    else:
                        tell(outcome)
        finally:
            for job in self._jobs:
                job.process.kill()  # the cell goes with it
                job.process.wait()
            self._jobs = []

    def _start(self, order: dict) -> None:
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        programs = {name: str(path) for name, path in vars(self._programs).items() if path}
        order = order | {"folder": str(folder), "programs": programs, "states": self._outcomes.states,
                         "keep": str(self._keep)}
        words = cell.command([sys.executable, str(HERE / "trial.py"), json.dumps(order)])
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   text=True)
        self._jobs.append(Job(order, process, time.monotonic()))

    def _end(self, job: Job) -> dict | None:
        """The outcome; none where it has to be tried again."""
        out, err = job.process.communicate()
        shutil.rmtree(job.order["folder"], ignore_errors=True)
        if job.process.returncode != 0:
            self._broken += 1
            what = job.order.get("fault", job.order.get("reference"))
            print(f"\nsoak: {what} broke: {err[-2000:]}", file=sys.stderr)
            if self._broken >= MOST_BROKEN:
                raise SystemExit("soak: the driver does not work here; see above")
            return None
        outcome = json.loads(out.splitlines()[-1])
        if outcome.pop("void", False):
            return None
        outcome["took_s"] = round(time.monotonic() - job.started, 1)
        self._outcomes.add(outcome)
        return outcome


class Progress:
    def __init__(self, done: int, of: int):
        self._first, self._done, self._of, self._started = done, done, of, time.monotonic()
        self._complaints = 0

    def __call__(self, outcome: dict) -> None:
        self._done += 1
        self._complaints += bool(outcome["complaints"])
        rate = (self._done - self._first) / max(1e-3, time.monotonic() - self._started)
        left = _hours((self._of - self._done) / rate) + " left"
        line = f"{self._done}/{self._of} faults  {60 * rate:.1f} a minute  {left}  {self._complaints} with complaints"
        print(f"\r{line}  " if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)
        for complaint in outcome["complaints"]:
            print(f"\n{time.strftime('%H:%M:%S')} fault {outcome['fault']}, {outcome['mode']}, {outcome['kind']} "
                  f"{outcome['moment']} ({outcome['did']}): {complaint}", flush=True)


def _hours(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds // 60) % 60:02d} h"


def programs_beside(tandem: Path, plugin: Path | None, python: Path | None = None) -> modes.Programs:
    """Of one build; what it lacks, its modes are left out."""
    if python:
        return modes.Programs(tandem=tandem.resolve(), python=python.absolute())
    build = tandem.resolve().parents[1]
    places = {
        "standby": [build / "bin/standby"],
        "local_steps": [build / "bin/local_steps"],
        "plugin": [plugin] if plugin else [build / "tests/process/leaving.so", build / "lib/leaving.so"],
    }
    found = {name: next((each for each in some if each.exists()), None) for name, some in places.items()}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        print(f"soak: modes are left out, since there is no {', '.join(missing)}", file=sys.stderr)
    return modes.Programs(tandem=tandem.resolve(), **found)


def _recipes(programs: modes.Programs, only: list[int] | None) -> list[str]:
    """Of whose undisturbed runs the state is wanted."""
    wanted = [plan(number, programs).mode for number in only] if only else modes_of(programs)
    return sorted({mode.recipe.name for mode in wanted if mode.promises_bits(was_stopped=False)})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=Path)
    parser.add_argument("--faults", type=int, help="that find a run to disturb (1000; 200 with --python)")
    parser.add_argument("--outcomes", type=Path, help="(build/soak/outcomes.jsonl; build/soak/python/outcomes.jsonl)")
    parser.add_argument("--jobs", type=int, default=max(1, os.cpu_count() or 1), help="faults at a time (one a core)")
    parser.add_argument("--plugin", type=Path, help="the library made of tests/process/leaving.cc")
    parser.add_argument("--python", type=Path, help="in the place of other modes: those with environments in it")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="fault number N alone")
    parser.add_argument("--report", action="store_true", help="the tables of what there is so far")
    arguments = parser.parse_args()
    if arguments.faults is None:
        arguments.faults = 200 if arguments.python else 1000
    if arguments.outcomes is None:
        arguments.outcomes = Path("build/soak") / ("python/outcomes.jsonl" if arguments.python else "outcomes.jsonl")
    return arguments


def _try_all(soak: Soak, outcomes: Outcomes, faults: int, jobs: int) -> None:
    """Some come when their run has ended; others take their place."""
    progress = Progress(outcomes.injected, faults)
    while outcomes.injected < faults:
        untried = (number for number in itertools.count(1) if number not in outcomes.faults)
        numbers = list(itertools.islice(untried, faults - outcomes.injected))
        soak.run([{"fault": number} for number in numbers], jobs, progress)


def main() -> int:
    arguments = _arguments()
    programs = programs_beside(arguments.tandem, arguments.plugin, arguments.python)
    outcomes = Outcomes(arguments.outcomes, identity(programs))
    if arguments.report:
        print(report(outcomes.faults.values()))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    recipes = _recipes(programs, arguments.only)
    try:
        with tempfile.TemporaryDirectory(prefix="tandem-soak-") as scratch:
            soak = Soak(programs, outcomes, arguments.outcomes.resolve().parent / "kept", Path(scratch))
            soak.run([{"reference": name} for name in recipes if name not in outcomes.states], arguments.jobs)
            if arguments.only:
                soak.run([{"fault": each} for each in arguments.only], arguments.jobs, Progress(0, len(arguments.only)))
            else:
                _try_all(soak, outcomes, arguments.faults, arguments.jobs)
    except KeyboardInterrupt:
        print(f"\nsoak: interrupted; {outcomes.injected} faults so far, and the next call goes on", file=sys.stderr)
        return 130
    print("\n" + report(outcomes.faults.values()))
    return 1 if any(outcome["complaints"] for outcome in outcomes.faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
