#!/usr/bin/env python3
"""One fault, from the start of its run to the verdict, or one undisturbed run: the first process of a cell.

    trial.py '{"fault": 7, "folder": ..., "programs": {...}, "states": {...}, "keep": ...}'

Prints what became of it as a line of JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cell
import commands
import modes
import python_modes
import run_folder
from documented import STOPPED, Situation, codes
from judge import Seen, complaints
from kinds import Scene
from plan import Plan, plan
from tree import Ticks, Tree, signal_process

HANG_S = 100.0  # of naps: longer than any wait that a fault of ours may cause
SETTLE_S = 3.0  # until the processes of a dead launcher are gone
PATIENCE_S = 15.0  # of ranks that were started by hand, for one that has failed


class Trial:
    def __init__(self, order: dict):
        self.folder = Path(order["folder"])
        self.keep = Path(order["keep"])
        self.states: dict[str, str] = order["states"]
        self.programs = modes.Programs(**{name: Path(path) for name, path in order["programs"].items()})
        self.run = self.folder / "run"
        self.tree = Tree(self.folder, python_modes.VARIABLES if self.programs.python else {})
        self.ticks = Ticks()
        self.living: list[str] = []
        self.left: list[str] = []
        self.notes: list[str] = []
        self.was_asked = False

    def reference(self, name: str) -> dict:
        recipe = next(mode.recipe for mode in modes.MODES if mode.recipe.name == name)
        for start in commands.undisturbed(recipe, self.programs, self.run):
            self.tree.start(start)
        self.ticks.wait(self.tree.has_ended, HANG_S)
        if not run_folder.has_finished(self.run):
            raise SystemExit(f"the undisturbed run of {name} has failed: {self.tree.output()}")
        return {"reference": name, "state": run_folder.summary(self.run)["state_sha256"]}

    def fault(self, number: int) -> dict:
        what = plan(number, self.programs)
        scene = self._disturbed_run(what)
        had_begun, had_started = run_folder.updates(self.run) > 0, (self.run / "log.txt").exists()
        came_late = self.tree.has_ended() and not what.kind.begins_with_it
        if not came_late:
            what.kind.inject(scene)
            came_late = not what.kind.begins_with_it and not scene.did
        first = self._end()
        now = Situation(had_begun, had_started, self._has_finished(what.mode), scene.signals, self.was_asked)
        again = bool(what.variables) and "SOAK_ONCE" not in what.variables
        allowed = [codes(what.mode, what.kind, now, root in scene.victims, again) for root in self.tree.roots]
        if scene.pipe is not None:
            os.close(scene.pipe)
        (self.folder / "filler").unlink(missing_ok=True)
        resumed = None if what.mode.example or self._has_finished(what.mode) or None in first else self._resume(what)
        seen = self._seen(what, list(zip(first, allowed)), resumed)
        found = complaints(seen)
        if found:
            self._keep(what)
        moment = "from the start" if what.kind.begins_with_it else str(what.moment)
        return {
            "fault": number,
            "mode": what.mode.name,
            "kind": what.kind.name,
            "moment": moment,
            "did": scene.did or self._given(what) or "nothing",
            "late": came_late,
            "codes": first,
            "resumed": resumed,
            "bits": seen.expected_state is not None,
            "notes": self.notes,
            "complaints": found,
            "void": self.ticks.was_paused,
        }

    def _given(self, what: Plan) -> str:
        given = [f"{name}={value}" for name, value in what.variables.items()]
        given += [f"limit {most}" for most in what.limits.values()] + [f"no descriptor {each}" for each in what.closed]
        return ", ".join(given)

    def _disturbed_run(self, what: Plan) -> Scene:
        scene = Scene(what.mode, self.tree, self.ticks, what.dice)
        into = None
        if what.kind.name == "nobody reads the output":
            scene.pipe, into = os.pipe()
            os.set_blocking(scene.pipe, False)
        elif what.kind.floods:
            into = os.open(os.devnull, os.O_WRONLY)
        variables = dict(what.variables)
        if "SOAK_ONCE" in variables:
            variables["SOAK_ONCE"] = str(self.folder / "once")
        for start in commands.run(what.mode, self.programs, self.run):
            given = commands.Start(start.words, start.variables | variables)
            self.tree.start(given, what.limits, what.closed, into)
        if into is not None:
            os.close(into)
        if not what.kind.begins_with_it:
            moment = what.moment
            self.ticks.wait(lambda: self._drained(scene) or run_folder.updates(self.run) >= moment.update
                            or self.tree.has_ended(), HANG_S)
            self.ticks.wait(lambda: self._drained(scene) or self.tree.has_ended(), moment.delay_s)
        return scene

    @staticmethod
    def _drained(scene: Scene) -> bool:
        if scene.pipe is not None:
            try:
                os.read(scene.pipe, 1 << 16)
            except BlockingIOError:
                pass
        return False

    def _has_finished(self, mode: modes.Mode) -> bool:
        if not mode.example:
            return run_folder.has_finished(self.run)
        words = "finished with error" if mode.example == "local_steps" else " steps, error "
        return words in self.tree.output()

    def _end(self) -> list[int | None]:
        """Waits until all that were started have ended, and nothing is left; ends what hangs."""
        roots = self.tree.roots

        def one_has_failed() -> bool:
            return self.tree.has_ended() or any(self.tree.codes.get(root, 0) != 0 for root in roots)

        self.ticks.wait(one_has_failed, HANG_S)
        if not self.ticks.wait(self.tree.has_ended, PATIENCE_S) and len(roots) > 1 and one_has_failed():
            self.was_asked = True
            for root in roots:
                if root not in self.tree.codes:
                    signal_process(root, signal.SIGTERM)
        if not self.ticks.wait(self.tree.has_ended, HANG_S):
            self.notes += [self._stack(pid) for pid in self.tree.living()]
        ended = [self.tree.codes.get(root) for root in roots]
        if not self.ticks.wait(lambda: not self.tree.living(), SETTLE_S) and None not in ended:
            self.living += [self.tree.describe(pid) for pid in self.tree.living()]
        self.tree.end_all()
        self.ticks.wait(lambda: not self.tree.living(), SETTLE_S)
        self.ticks.wait(lambda: not cell.left_outside(self.folder), SETTLE_S)  # the system closes sockets by and by
        self.left += cell.left_outside(self.folder)
        return ended

    def _resume(self, what: Plan) -> list[int | None]:
        dice = what.dice
        for is_killed in (True, False) if what.again else (False,):
            self.tree.roots = []
            for start in commands.resume(what.mode, self.programs, self.run, dice):
                self.tree.start(start)
                self.notes.append("resumed by " + " ".join(start.words[1:3] + start.words[-4:]))
            if is_killed:
                self.ticks.wait(self.tree.has_ended, dice.uniform(0, 1.5))
                for pid in dice.sample(self.tree.roots, 1):
                    signal_process(pid, signal.SIGKILL)
                if None in self._end():
                    return [None]
        return self._end()

    def _seen(self, what: Plan, ended: list, resumed: list | None) -> Seen:
        if what.mode.example:
            return Seen(ended, self.living, self.left)
        state = run_folder.summary(self.run).get("state_sha256")
        finished = run_folder.has_finished(self.run)
        promises_bits = what.mode.promises_bits(was_stopped=STOPPED in [code for code, _ in ended])
        return Seen(ended, self.living, self.left, resumed, finished, state,
                    self.states[what.mode.recipe.name] if promises_bits else None,
                    run_folder.faults_of_record(self.run) if finished else [],
                    run_folder.strange_files(self.run) if finished else [])

    def _stack(self, pid: int) -> str:
        words = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 12"]
        try:
            got = subprocess.run(words, capture_output=True, text=True, timeout=60)
            frames = [line[:160] for line in got.stdout.splitlines() if line.startswith(("#", "Thread"))]
        except (OSError, subprocess.SubprocessError):
            frames = []
        return "\n".join(["has not ended: " + self.tree.describe(pid), *frames])

    def _keep(self, what: Plan) -> None:
        kept = self.keep / str(what.number)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.folder, kept, ignore=shutil.ignore_patterns("filler"))


def main() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    order = json.loads(sys.argv[1])
    cell.furnish(Path(order["folder"]))
    trial = Trial(order)
    print(json.dumps(trial.reference(order["reference"]) if "reference" in order else trial.fault(order["fault"])))


if __name__ == "__main__":
    main()
