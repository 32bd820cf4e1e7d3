#!/usr/bin/env python3
"""The soak's own test: its judge catches what is wrong, and six of its faults are tried.

    soak_test.py TANDEM PLUGIN [-v] [JudgeTest...]

Exits with 77, which counts as skipped, where no cell can be made (neither root nor user namespaces).
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import cell
import commands
import documented
import kinds
import modes
import python_modes
import run_folder
import soak
import trial
from judge import Seen, complaints
from outcomes import Outcomes
from plan import plan
from report import report
from tree import Ticks, Tree

SKIPPED = 77
MODE = {mode.name: mode for mode in modes.MODES}
KIND = {kind.name: kind for kind in kinds.KINDS}


class JudgeTest(unittest.TestCase):
    def test_a_clean_end_has_no_complaint(self):
        self.assertEqual(complaints(Seen([(137, {137})], resume_codes=[0], state="ab", expected_state="ab")), [])

    def test_another_state_is_told_where_bits_are_promised(self):
        self.assertEqual(complaints(Seen(state="ab", expected_state="cd")), ["bits: state ab in place of cd"])
        self.assertEqual(complaints(Seen(state="ab", expected_state=None)), [])

    def test_codes_that_no_document_has_are_told(self):
        self.assertEqual(complaints(Seen([(70, {130, 3})])), ["code: 70 is not one of [3, 130]"])

    def test_who_has_not_ended_hangs(self):
        self.assertEqual(complaints(Seen([(None, {0})])), ["hang: it has not ended"])
        self.assertEqual(complaints(Seen(resume_codes=[None])), ["hang: the resumed run has not ended"])

    def test_what_is_left_is_told(self):
        seen = Seen(living=["7 tandem S"], left=["/dev/shm/x"], strange_files=["status.json.part"])
        self.assertEqual([each.split(":")[0] for each in complaints(seen)], ["leftover"] * 3)

    def test_a_run_that_does_not_finish_is_told(self):
        self.assertEqual([each.split(":")[0] for each in complaints(Seen(finished=False, resume_codes=[3]))],
                         ["resume", "resume"])

    def test_codes_depend_on_what_the_fault_met(self):
        begun = documented.Situation(had_begun=True, had_started=True, finished=False)
        done = documented.Situation(had_begun=True, had_started=True, finished=True)
        kill = KIND["a kill"]
        self.assertEqual(documented.codes(MODE["PPO, --ranks 2"], kill, begun, False), {137})
        self.assertEqual(documented.codes(MODE["PPO, launch 3, replace"], kill, begun, False), set())
        self.assertEqual(documented.codes(MODE["PPO, launch 3, replace"], kill, done, False), {0})
        by_hand = MODE["PPO, RANK and WORLD_SIZE by hand"]
        self.assertEqual(documented.codes(by_hand, kill, begun, True), {137})
        self.assertEqual(documented.codes(by_hand, kill, begun, False), {3})
        self.assertEqual(documented.codes(by_hand, KIND["SIGHUP"], begun, True), {130})


class RunFolderTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "summary.json").write_text('{"end": "finished", "updates": 2}')

    def test_a_line_twice_a_gap_or_a_torn_end_is_told(self):
        for text, is_right in (("1\n2\n", True), ("1\n1\n", False), ("1\n3\n", False), ("1\n2", False), ("1\n", False)):
            lines = "".join(c if c == "\n" else f'{{"updates": {c}}}' for c in text)
            (self.folder / "metrics.jsonl").write_text(lines)
            self.assertEqual(run_folder.faults_of_record(self.folder) == [], is_right, text)

    def test_parts_and_checkpoints_without_manifest_are_strange(self):
        (self.folder / "checkpoints/u000000000004").mkdir(parents=True)
        (self.folder / "status.json.part").touch()
        self.assertEqual(run_folder.strange_files(self.folder),
                         ["checkpoints/u000000000004, which has no manifest", "status.json.part"])
        (self.folder / "status.json.part").unlink()
        (self.folder / "checkpoints/u000000000004/manifest.json").touch()
        self.assertEqual(run_folder.strange_files(self.folder), [])


class OutcomesTest(unittest.TestCase):
    def test_a_soak_goes_on_behind_what_its_own_program_has(self):
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "soak/outcomes.jsonl"
            first = Outcomes(file, "one")
            first.add({"reference": "ppo", "state": "ab"})
            first.add({"fault": 3, "late": False})
            with file.open("a") as out:
                out.write('{"program": "one", "fau')  # a soak that was killed
            again = Outcomes(file, "one")
            again.add({"fault": 4, "late": True})
            last = Outcomes(file, "one")
            self.assertEqual((last.states, sorted(last.faults), last.injected), ({"ppo": "ab"}, [3, 4], 1))
            self.assertEqual(Outcomes(file, "another").faults, {})

    def test_the_tables_count(self):
        common = {"mode": "m", "kind": "a kill", "moment": "", "did": "", "codes": [0], "late": False, "bits": True}
        text = report([
            common | {"fault": 1, "resumed": [0], "complaints": []},
            common | {"fault": 2, "resumed": [0], "complaints": ["bits: x", "leftover: y"]},
            common | {"fault": 3, "resumed": None, "complaints": ["hang: z"]},
            common | {"fault": 4, "resumed": None, "complaints": [], "late": True},
        ])
        self.assertIn("| m | 3 | 2 | 1 | 1 | 2 of 2 | 2 of 3 |", text)
        self.assertIn("fault 2: m; a kill", text)


    def test_a_stop_between_checkpoints_keeps_the_bits_where_the_documents_say_so(self):
        inline, ppo = MODE["IMPALA inline, --ranks 2"], MODE["PPO, --ranks 2"]
        self.assertEqual([inline.promises_bits(was_stopped) for was_stopped in (False, True)], [True, False])
        self.assertEqual([ppo.promises_bits(was_stopped) for was_stopped in (False, True)], [True, True])


class PlanTest(unittest.TestCase):
    def test_a_number_is_always_the_same_fault_and_all_modes_and_kinds_come(self):
        programs = modes.Programs(Path("t"), Path("s"), Path("l"), Path("p"))
        plans = [plan(number, programs) for number in range(1000)]
        self.assertEqual(plans[7].text, plan(7, programs).text)
        self.assertEqual({each.mode.name for each in plans}, set(MODE))
        self.assertEqual({each.kind.name for each in plans}, set(KIND))
        self.assertEqual(len({each.text for each in plans}), 1000)


class PythonTest(unittest.TestCase):
    def test_all_that_is_done_to_workers_comes_to_all_their_modes(self):
        programs = modes.Programs(Path("t"), python=Path("p"))
        plans = [plan(number, programs) for number in range(1000)]
        self.assertEqual({each.mode.name for each in plans}, {each.name for each in python_modes.PYTHON_MODES})
        self.assertEqual({each.kind.name for each in plans}, {each.name for each in python_modes.PYTHON_KINDS})
        self.assertTrue(all("SOAK_FAULT" in each.variables for each in plans if each.kind.misdeed))

    def test_codes_depend_on_restarts(self):
        kind = {each.name: each for each in python_modes.PYTHON_KINDS}
        restarts, ends = python_modes.PYTHON_MODES[:2]
        begun = documented.Situation(had_begun=True, had_started=True, finished=False)
        early = documented.Situation(had_begun=False, had_started=False, finished=False)
        for name in ("a worker killed", "an exception"):
            self.assertEqual(documented.codes(restarts, kind[name], begun, False), set())
            self.assertEqual(documented.codes(ends, kind[name], begun, False), {3})
        self.assertEqual(documented.codes(restarts, kind["an exception"], begun, False, again=True), {3})
        self.assertEqual(documented.codes(restarts, kind["a worker killed"], early, False), {2, 3})
        self.assertEqual(documented.codes(ends, kind["a gigabyte printed"], begun, False), set())
        self.assertEqual(documented.codes(ends, kind["a kill"], begun, False), {137})


FAKES = {
    "hangs": "import time; time.sleep(1000)",
    "leaves": "import os, time; open('/dev/shm/left', 'w'); os.fork() or (os.setsid(), time.sleep(1000))",
    "listens": "import socket, os, time; s = socket.create_server(('', 4711)); os.fork() or time.sleep(1000)",
    "is_good": "pass",
}


def try_fake(name: str, folder: Path) -> list[str]:
    """What is said of a false program, in a cell."""
    cell.furnish(folder)
    with mock.patch.multiple(trial, HANG_S=0.5, PATIENCE_S=0.1, SETTLE_S=0.5):
        one = trial.Trial({"folder": folder, "keep": folder / "kept", "states": {}, "programs": {"tandem": "none"}})
        one.tree.start(commands.Start([sys.executable, "-c", FAKES[name]]))
        codes = one._end()
    return complaints(Seen([(code, {0}) for code in codes], one.living, one.left))


class CellTest(unittest.TestCase):
    def said_of(self, name: str) -> list[str]:
        with tempfile.TemporaryDirectory() as scratch:
            words = [sys.executable, __file__, "--fake", name, scratch]
            done = subprocess.run(cell.command(words), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_program_that_hangs_is_caught(self):
        self.assertEqual(self.said_of("hangs"), ["hang: it has not ended"])

    def test_what_a_program_leaves_is_caught(self):
        said = self.said_of("leaves")
        self.assertEqual(len(said), 2, said)
        self.assertIn("leftover: the process", said[0])
        self.assertEqual(said[1], "leftover: /dev/shm/left")
        self.assertFalse(Path("/dev/shm/left").exists(), "a cell has a /dev/shm of its own")
        self.assertIn("leftover: the process", self.said_of("listens")[0])

    def test_a_good_program_is_not(self):
        self.assertEqual(self.said_of("is_good"), [])

    def test_a_pause_is_noticed(self):
        ticks = Ticks()
        with mock.patch("tree.PAUSE_S", 0.05):
            ticks.nap()
            self.assertFalse(ticks.was_paused)
            ticks._last -= 1
            ticks.nap()
        self.assertTrue(ticks.was_paused)


class SoakTest(unittest.TestCase):
    tandem = plugin = ""
    # One each: a kill of a rank that is replaced, a signal, a stop, a full disk, few descriptors, a killed launcher.
    WANTED = ("a kill", "SIGTERM", "a short stop", "a full disk", "few descriptors", "the launcher killed")

    def numbers(self) -> list[int]:
        programs = soak.programs_beside(Path(self.tandem), Path(self.plugin))
        plans = [plan(number, programs) for number in range(1, 400)]
        return [next(each.number for each in plans if each.kind.name == name and each.mode.recipe.name == "ppo")
                for name in self.WANTED]

    def soak(self, file: Path, numbers: list[int], *more: str) -> tuple[int, str]:
        only = [word for number in numbers for word in ("--only", str(number))]
        words = ["soak.py", self.tandem, "--outcomes", str(file), "--plugin", self.plugin, "--jobs", "2", *only, *more]
        said = io.StringIO()
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(said):
            return soak.main(), said.getvalue()

    def test_six_faults_have_outcomes_and_a_wrong_state_is_told(self):
        numbers = self.numbers()
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "outcomes.jsonl"
            self.assertEqual(self.soak(file, numbers)[0], 0, file.read_text())
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            self.assertEqual(sorted(each["fault"] for each in lines if "fault" in each), sorted(numbers))
            for line in lines:
                if "state" in line:
                    line["state"] = "0" * 64
            file.write_text("".join(json.dumps(each) + "\n" for each in lines))
            code, said = self.soak(file, numbers[:1])
            self.assertEqual(code, 1)
            self.assertIn("in place of 000000000000", said)


def can_make_cells() -> bool:
    return subprocess.run(cell.command(["true"]), capture_output=True).returncode == 0


if __name__ == "__main__":
    if sys.argv[1] == "--fake":
        print(json.dumps(try_fake(sys.argv[2], Path(sys.argv[3]))))
        sys.exit(0)
    if not can_make_cells():
        sys.exit(SKIPPED)
    SoakTest.tandem, SoakTest.plugin = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
