#!/usr/bin/env python3
"""The laws of `make gpu-day`: what comes first among its findings, and that it ends in order without a device.

gpu_day_test.py TANDEM [-v] [FindingsTest...]
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import findings
import trials
from findings import Rank
from report import markdown
from trials import Outcome, Training, Trial

HERE = Path(__file__).resolve().parent


def outcome(name="ppo", *, states=("a", "a"), same_bits=True, device=200.0, cpu=100.0, failure="", played=""):
    on_device = [Training(state_sha256=state, env_steps_per_s=device, failure=failure) for state in states]
    return Outcome(name, same_bits, f"tandem train --algo {name}", on_device, Training(env_steps_per_s=cpu), played)


def bench(name="ppo_cuda", *, met=None, failure=None, not_run=None):
    metric = {"name": "env_steps_per_s", "met": met, "times_better": {"autograd": 0.5}, "contenders": {}, "unit": "1/s"}
    return {"benches": [{"name": name, "failure": failure, "not_run": not_run, "metrics": [metric]}]}


class FindingsTest(unittest.TestCase):
    def ranks(self, found):
        return [finding.rank for finding in found]

    def test_what_is_in_order_is_no_finding(self):
        self.assertEqual(findings.of_trials([outcome()]), [])
        self.assertEqual(findings.of_benches(bench(met=True)), [])
        self.assertEqual(findings.of_tests([{"name": "A.B", "failures": [], "skipped": False}], "tests"), [])

    def test_other_bits_are_wrong_only_where_the_same_were_promised(self):
        self.assertEqual(self.ranks(findings.of_trials([outcome(states=("a", "b"))])), [Rank.WRONG])
        self.assertEqual(findings.of_trials([outcome(states=("a", "b"), same_bits=False)]), [])

    def test_a_training_that_failed_says_nothing_of_its_speed(self):
        found = findings.of_trials([outcome(failure="exit code 3", device=1)])
        self.assertEqual(self.ranks(found), [Rank.FAILED])
        self.assertIn("exit code 3", found[0].evidence)

    def test_what_cannot_be_played_on_the_cpu_failed(self):
        self.assertEqual(self.ranks(findings.of_trials([outcome(played="no such file")])), [Rank.FAILED])

    def test_a_skipped_test_and_a_bench_that_was_not_run_are_findings(self):
        self.assertEqual(
            self.ranks(findings.of_tests([{"name": "A.B", "failures": [], "skipped": True}], "t")), [Rank.FAILED]
        )
        self.assertEqual(self.ranks(findings.of_benches(bench(not_run="no device"))), [Rank.FAILED])

    def test_wrong_comes_before_failed_before_missed_before_slow_and_the_slowest_first(self):
        found = findings.of_trials(
            [
                outcome("little", device=90),
                outcome("much", device=10),
                outcome("dead", failure="x"),
                outcome("bits", states=("a", "b")),
            ]
        )
        found += findings.of_benches(bench(met=False))
        ordered = findings.in_order(found)
        self.assertEqual(self.ranks(ordered), [Rank.WRONG, Rank.FAILED, Rank.MISSED, Rank.SLOW, Rank.SLOW])
        self.assertEqual([each.what for each in ordered[3:]], ["training: much", "training: little"])

    def test_findings_of_one_cause_are_one(self):
        found = findings.of_trials(
            [outcome("a", failure="no driver"), outcome("b", failure="no driver"), outcome("c", failure="full")]
        )
        self.assertEqual([each.what for each in findings.in_order(found)], ["training: a, training: b", "training: c"])


class DayTest(unittest.TestCase):
    tandem = Path()

    def day(self, *arguments, path):
        return subprocess.run(
            [sys.executable, "-B", HERE / "gpu_day.py", "--build", self.tandem.parents[1], *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | {"PATH": path},
        )

    def test_without_a_device_it_says_so_and_proves_nothing(self):
        done = self.day(path="/nowhere")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no CUDA device", done.stderr)

    def test_a_training_is_run_twice_played_and_reported(self):
        trial = Trial("ppo, small", 2048, ("--algo", "ppo", "--env", "CartPole-v1", "--seed", "1"))
        with mock.patch.object(trials, "DEVICE", "cpu:1"), tempfile.TemporaryDirectory() as folder:
            made = trials.run_trial(trial, self.tandem, 1, Path(folder))
        self.assertEqual([each.failure for each in made.on_device], ["", ""])
        self.assertEqual(len({each.state_sha256 for each in made.on_device}), 1)
        self.assertEqual(made.played, "")
        self.assertGreater(made.on_cpu.learn_ms, 0)
        day = {"began": "today", "seconds": 1, "machine": {}, "tests": {}, "benches": {}, "left_out": ["tests"]}
        text = markdown(day, [], [made])
        self.assertIn("| ppo, small | ", text)
        self.assertIn("by fused kernels", text)
        self.assertIn("Not tried: tests.", text)

    def test_every_training_is_one_that_the_program_knows(self):
        for trial in trials.TRIALS:
            with self.subTest(trial.name), tempfile.TemporaryDirectory() as folder:
                first_update = dataclasses.replace(trial, steps=1)
                done = trials.train(first_update, self.tandem, "cpu:1", Path(folder) / "run")
                self.assertEqual(done.failure, "")

    def test_a_device_on_which_all_fails_is_a_report_of_failures(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder) / "nvidia-smi"
            fake.write_text("#!/bin/sh\necho 'A card, 1, 2 MiB'\n")
            fake.chmod(0o755)
            done = self.day("--only", "trainings", "--report", folder, path=f"{folder}:{os.environ['PATH']}")
            self.assertEqual(done.returncode, 1, done.stderr)
            report = json.loads((Path(folder) / "report.json").read_text())
            self.assertEqual(len(report["trainings"]), len(trials.TRIALS))
            self.assertEqual({each["rank"] for each in report["findings"]}, {"failed"})
            named = " ".join(each["what"] for each in report["findings"])
            self.assertEqual([each.name for each in trials.TRIALS if f"training: {each.name}" not in named], [])
            text = (Path(folder) / "report.md").read_text()
            self.assertIn("CUDA was asked for, but", text)
            self.assertIn("Not tried: benches", text)


if __name__ == "__main__":
    DayTest.tandem = Path(sys.argv.pop(1)).resolve()
    unittest.main()
