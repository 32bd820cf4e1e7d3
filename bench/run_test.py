"""The laws of bench/run.py: which benches it knows, what it prints, and how it ends."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import run as program
from harness_test import FakeBench


class SuiteTest(unittest.TestCase):
    def run_program(self, benches, *arguments):
        """Exit status of run.py with these benches, what it prints, and those of its results."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "bin").mkdir()
            (Path(folder) / "bin" / "tandem").write_text('#!/bin/sh\necho \'{"version":"0"}\'\n')
            (Path(folder) / "bin" / "tandem").chmod(0o755)
            with (
                unittest.mock.patch.object(program, "known_benches", lambda: benches),
                unittest.mock.patch.object(sys, "argv", ["run.py", *arguments, "--build", folder]),
                contextlib.redirect_stdout(io.StringIO()) as out,
                contextlib.redirect_stderr(io.StringIO()) as err,
            ):
                status = program.main()
            results = json.loads((Path(folder) / "bench.json").read_text())["benches"]
        return status, out.getvalue(), err.getvalue(), results

    def test_a_run_that_is_stopped_shows_what_it_has(self):
        class Stopped(FakeBench):
            def contenders(self):
                raise KeyboardInterrupt

        made = {"fake": lambda place: FakeBench([1], [1]), "slow": lambda place: Stopped([], [])}
        status, out, err, benches = self.run_program(made, "--smoke")
        self.assertEqual(status, 130)
        self.assertEqual(len(benches), 1)
        self.assertIn("Stopped after 1 of 2 benches.", out)
        self.assertIn("fake is done, 1 of 2, after 0:0", err)

    def test_a_missed_target_is_a_failure_when_asked_strictly(self):
        for ours, arguments, expected in ((30, ["--strict"], 0), (29, ["--strict"], 1), (29, [], 0)):
            made = {"fake": lambda place, ours=ours: FakeBench([ours], [10])}
            status, out, err, _ = self.run_program(made, "--repeats", "1", *arguments)
            self.assertEqual(status, expected, (ours, arguments))
            self.assertEqual("MISSED" in out, ours == 29)
            self.assertEqual("bench: missed: fake: rate\n" in err, status == 1)

    def test_a_target_that_cannot_be_judged_is_not_missed(self):
        class Lonely(FakeBench):
            def contenders(self):
                self.missing["peer"] = "it could not be installed"
                return super().contenders()[:1]

        status, out, _, _ = self.run_program({"fake": lambda place: Lonely([30], [])}, "--repeats", "1", "--strict")
        self.assertEqual(status, 0)
        self.assertIn("not judged", out)

    def test_a_smoke_run_cannot_be_strict(self):
        with self.assertRaises(SystemExit) as ended:
            self.run_program({"fake": lambda place: FakeBench([], [])}, "--smoke", "--strict")
        self.assertEqual(ended.exception.code, 2)

    def test_every_file_of_the_suite_is_a_bench_of_its_own_name(self):
        benches = program.known_benches()
        files = {path.stem for path in (Path(__file__).parent / "suite").glob("*.py")}
        self.assertEqual(set(benches), files)
        self.assertTrue(all(bench.question for bench in benches.values()))


if __name__ == "__main__":
    unittest.main()
