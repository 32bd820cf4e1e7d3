"""The laws of the harness: who runs when, which number is reported, and what makes a bench fail."""

import contextlib
import io
import json
import math
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

from harness.compiled import CompiledBench, read_lines
from harness.measure import measure
from harness.model import (
    Bench,
    Better,
    Contender,
    Failed,
    Metric,
    Place,
    Sample,
    Size,
    Summary,
    Unavailable,
    WrongAnswer,
    times_better,
)
from harness.off_policy_training import OffPolicySettings
from harness.peers import PeerEnvironments, Peers, link_distribution
from harness.picture import bars_of, draw
from harness.process import run
from harness.report import table, to_json
from harness.tandem_training import NewLines, SolvedLine, means_of
from harness.training import CARTPOLE, Settings
from suite.outside_kernels import kernels_of

RATE = Metric("rate", "1/s", Better.HIGHER, at_least_times={"peer": 3})
TIME = Metric("time", "s", Better.LOWER, at_most=1.5)


class FakeBench(Bench):
    """Two contenders whose numbers are given, a full round each; notes the turns."""

    name = "fake"
    question = "Is it?"
    metrics = (RATE, TIME)

    def __init__(self, ours, theirs):
        super().__init__(place=None)
        self.numbers = {"tandem": iter(ours), "peer": iter(theirs)}
        self.turns = []

    def contenders(self):
        return [Contender(name, lambda size, name=name: self.turn(name, size)) for name in self.numbers]

    def turn(self, name, size):
        self.turns.append((name, size))
        rate = 1.0 if size is Size.SMOKE else next(self.numbers[name])
        return Sample({"rate": rate, "time": 10 / rate if rate else math.inf}, {"hash": "same"})


class KernelsTest(unittest.TestCase):
    def test_their_time_is_read_from_the_table_of_a_profile(self):
        table = """thread          phase                     own s    share    all s     times     mean us  longest ms
tandem          update                    0.025     5.0%    0.500        10     50000.0      60.000
replica 0       loss and gradients        0.120    12.0%    0.130      1300       100.5       1.250
replica 0       (none of these)           0.100    10.0%
"""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "profile.txt"
            path.write_text(table)
            milliseconds, times = kernels_of(path)
            self.assertAlmostEqual(milliseconds, 130.65)
            self.assertEqual(times, 1300)
            path.write_text(table.replace("loss and gradients", "backward          "))
            with self.assertRaises(WrongAnswer):
                kernels_of(path)


class MeasureTest(unittest.TestCase):
    def test_contenders_take_turns_after_one_smoke_round(self):
        bench = FakeBench([1, 2], [3, 4])
        measure(bench, Size.FULL, repeats=2)
        smoke, full = Size.SMOKE, Size.FULL
        self.assertEqual(bench.turns, [("tandem", smoke), ("peer", smoke)] + [("tandem", full), ("peer", full)] * 2)

    def test_a_smoke_run_is_one_round(self):
        bench = FakeBench([], [])
        result = measure(bench, Size.SMOKE, repeats=5)
        self.assertEqual(len(bench.turns), 2)
        self.assertEqual(result.summary("tandem", RATE).values, (1.0,))
        self.assertIsNone(result.met(RATE))  # so little work says nothing of speed

    def test_a_defect_of_a_bench_is_its_failure_and_ends_no_other(self):
        bench = FakeBench([], [])
        bench.prepare = lambda contenders: {}["nothing"]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            result = measure(bench, Size.FULL, repeats=1)
        self.assertEqual(result.failure, "a defect of this bench, KeyError: 'nothing'")
        self.assertIn("Traceback", said.getvalue())

    def test_the_median_is_reported_and_the_smoke_round_left_out(self):
        result = measure(FakeBench([10, 1000, 30], [10, 10, 10]), Size.FULL, repeats=3)
        summary = result.summary("tandem", RATE)
        self.assertEqual((summary.median, summary.low, summary.high), (30, 10, 1000))
        self.assertAlmostEqual(result.ratio(RATE, "peer"), 3.0)
        self.assertAlmostEqual(result.ratio(TIME, "peer"), 3.0)  # less time is better by as much

    def test_targets_are_judged_by_the_median(self):
        met = measure(FakeBench([30, 31, 2], [10, 10, 10]), Size.FULL, repeats=3)
        self.assertTrue(met.met(RATE))
        self.assertTrue(met.met(TIME))
        missed = measure(FakeBench([29], [10]), Size.FULL, repeats=1)
        self.assertFalse(missed.met(RATE))
        slow = measure(FakeBench([6], [1]), Size.FULL, repeats=1)
        self.assertFalse(slow.met(TIME))

    def test_a_wrong_answer_leaves_no_numbers_in_the_table(self):
        class Wrong(FakeBench):
            def check(self, samples):
                raise WrongAnswer("two hashes")

        result = measure(Wrong([30], [10]), Size.FULL, repeats=1)
        self.assertEqual(result.failure, "WrongAnswer: two hashes")
        self.assertIn("FAILED: WrongAnswer: two hashes", table([result]))
        self.assertNotIn("30", table([result]))

    def test_a_failed_contender_fails_the_bench_alone(self):
        class Broken(FakeBench):
            def turn(self, name, size):
                raise Failed("it ended with 3")

        self.assertEqual(measure(Broken([], []), Size.FULL, repeats=1).failure, "Failed: it ended with 3")


class ReportTest(unittest.TestCase):
    def test_a_missing_peer_is_listed_and_nothing_is_claimed_against_it(self):
        class Lonely(FakeBench):
            def contenders(self):
                self.missing["peer"] = "it could not be installed: no index"
                return super().contenders()[:1]

        result = measure(Lonely([30], []), Size.FULL, repeats=1)
        text = table([result])
        self.assertIn("peer: it could not be installed: no index", text)
        self.assertIn(">= 3 times peer: not judged", text)
        self.assertIsNone(result.met(RATE))

    def test_the_table_has_a_line_for_each_metric(self):
        text = table([measure(FakeBench([36, 36], [10, 12]), Size.FULL, repeats=2)])
        rate = next(line for line in text.splitlines() if "rate [1/s]" in line)
        self.assertIn("36.000", rate)
        self.assertIn("3.27", rate)  # 36 / 11
        self.assertIn("0% / 18%", rate)
        self.assertIn(">= 3 times: met", rate)

    def test_json_has_every_sample(self):
        document = to_json(measure(FakeBench([30, 40], [10, 10]), Size.FULL, repeats=2))
        rate = document["metrics"][0]
        self.assertEqual(rate["contenders"]["tandem"]["values"], [30, 40])
        self.assertEqual(rate["times_better"], {"peer": 3.5})
        self.assertTrue(rate["met"])
        self.assertEqual(document["facts"]["tandem"], [{"hash": "same"}] * 2)

    def test_spread_and_direction(self):
        self.assertAlmostEqual(Summary.of([9, 10, 12]).spread, 0.3)
        self.assertEqual(times_better(TIME, 2, 6), 3)
        self.assertEqual(times_better(RATE, 6, 2), 3)

    def test_what_never_happened_is_never_in_the_table_and_null_in_json(self):
        result = measure(FakeBench([10, 10, 10], [5, 0, 0]), Size.FULL, repeats=3)
        line = next(line for line in table([result]).splitlines() if "time [s]" in line)
        self.assertIn("never", line)
        its = to_json(result)["metrics"][1]["contenders"]["peer"]
        self.assertEqual((its["median"], its["low"], its["values"]), (None, 2.0, [2.0, None, None]))
        json.dumps(to_json(result), allow_nan=False)

    def test_what_the_machine_lacks_is_no_failure_and_no_result(self):
        class ElsewhereBench(FakeBench):
            def contenders(self):
                raise Unavailable("it needs a device")

        result = measure(ElsewhereBench([], []), Size.FULL, repeats=1)
        self.assertIsNone(result.failure)
        self.assertIn("not run: it needs a device", table([result]))
        self.assertEqual(to_json(result)["not_run"], "it needs a device")
        self.assertEqual(to_json(result)["metrics"], [])

    def test_a_failure_before_any_contender_still_prints(self):
        class Early(FakeBench):
            def contenders(self):
                raise Failed("early")

        result = measure(Early([], []), Size.FULL, repeats=1)
        self.assertIn("FAILED: Failed: early", table([result]))
        self.assertEqual(to_json(result)["failure"], "Failed: early")


class PictureTest(unittest.TestCase):
    def test_a_bar_is_the_ratio_of_the_medians_and_spans_the_rounds(self):
        result = measure(FakeBench([30, 40, 50], [10, 10, 20]), Size.FULL, repeats=3)
        rate, time = bars_of(result)
        self.assertAlmostEqual(rate.ratio, 4)
        self.assertAlmostEqual(rate.low, 30 / 20)
        self.assertAlmostEqual(rate.high, 5)
        self.assertEqual(rate.target, 3)
        self.assertAlmostEqual(time.ratio, 4)
        self.assertAlmostEqual(time.low, 1.5)

    def test_it_is_xml_that_names_each_bench_and_leaves_failed_ones_out(self):
        class Wrong(FakeBench):
            name = "wrong"

            def check(self, samples):
                raise WrongAnswer("two hashes")

        results = [measure(bench([30], [10]), Size.FULL, repeats=1) for bench in (FakeBench, Wrong)]
        text = draw(results, "a <machine> & a commit")
        words = [element.text for element in xml.etree.ElementTree.fromstring(text).iter() if element.text]
        self.assertIn("fake", words)
        self.assertIn("rate, peer", words)
        self.assertIn("a <machine> & a commit", words)
        self.assertNotIn("wrong", words)

    def test_nothing_to_show_is_a_picture_too(self):
        xml.etree.ElementTree.fromstring(draw([], "nothing"))


class TrainingTest(unittest.TestCase):
    def done(self, steps, mean):
        return {"env_steps": steps, "episode_return_mean": mean}

    def test_a_training_that_did_not_learn_or_made_other_steps_is_a_wrong_answer(self):
        CARTPOLE.check("it", 300_000, 1024, self.done(300_500, 200.0))
        for steps, mean in ((300_500, 50.0), (299_999, 200.0), (301_024, 200.0), (300_500, 501.0), (300_500, None)):
            with self.assertRaises(WrongAnswer, msg=(steps, mean)):
                CARTPOLE.check("it", 300_000, 1024, self.done(steps, mean))
        CARTPOLE.check("it", 1024, 1024, self.done(1024, 22.0))  # too early to have learned

    def test_tandem_gets_the_numbers_that_peers_get(self):
        its = Settings(num_envs=64, hidden=(32, 16), learning_rate=0.5)
        config, peers = its.to_config("terminal"), json.loads(its.to_json())
        for key in ("num_envs", "rollout_steps", "epochs", "minibatch_size", "learning_rate", "gamma", "gae_lambda"):
            self.assertIn(f"{key}: {peers[key]}\n", config)
        self.assertIn("hidden: [32, 16]\n", config)
        self.assertEqual(peers["hidden"], [32, 16])

    def test_trainings_from_a_replay_have_the_numbers_that_peers_get(self):
        its = OffPolicySettings("td3", "Pendulum-v1", 6000, num_envs=2, gradient_steps=3, hidden=(32, 16), replicas=2)
        with tempfile.TemporaryDirectory() as folder:
            config = its.write_config(Path(folder)).read_text()
        for key in ("num_envs", "learning_rate", "batch_size", "train_every", "gradient_steps", "gamma", "tau"):
            self.assertIn(f"{key}: {json.loads(its.to_json())[key]}\n", config)
        self.assertRegex(config, r"(?s)\ntd3:\n.*hidden: \[32, 16\]\n")

    def test_lines_are_read_once_and_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "metrics.jsonl"
            lines = NewLines(path)
            self.assertEqual(lines.read(), [])
            path.write_text('{"a": 1}\n{"a":')
            self.assertEqual(lines.read(), [{"a": 1}])
            path.write_text('{"a": 1}\n{"a": 2}\n')
            self.assertEqual(lines.read(), [{"a": 2}])

    def test_means_leave_the_first_quarter_of_the_lines_out(self):
        lines = [{"idle": idle} for idle in (9, 1, 2, 3)]
        self.assertEqual(means_of(["idle"], lines), {"idle": 2})
        self.assertEqual(means_of([], []), {})

    def test_solved_is_the_mean_of_a_full_window(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "metrics.jsonl"
            lines, solved = NewLines(path), SolvedLine(475)
            for episodes, mean, expected in ((0, None, False), (99, 490, False), (100, 474, False), (101, 475, True)):
                with path.open("a") as file:
                    file.write(json.dumps({"episodes": episodes, "episode_return_mean": mean}) + "\n")
                self.assertEqual(solved(lines), expected, (episodes, mean))


class PeersTest(unittest.TestCase):
    def test_what_is_not_installed_is_unavailable_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "bench" / "peers").mkdir(parents=True)
            (Path(folder) / "bench" / "peers" / "some-requirements.txt").write_text("some==1\n")
            for which, reason in ((Peers.NONE, "--no-peers"), (Peers.INSTALLED, "not installed")):
                with self.assertRaisesRegex(Unavailable, reason):
                    PeerEnvironments(Path(folder), which).python("some", "some-requirements.txt")

    def test_an_environment_of_other_pins_or_another_recipe_is_not_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            peers = Path(folder) / "bench" / "peers"
            made = Path(folder) / ".venv" / "bench" / "some"
            peers.mkdir(parents=True)
            (made / "bin").mkdir(parents=True)
            (made / "bin" / "python").touch()
            (made / ".pins").write_text("some==1\n")
            (peers / "some-requirements.txt").write_text("some==1\n")
            find = lambda: PeerEnvironments(Path(folder), Peers.INSTALLED).python("some", "some-requirements.txt")
            self.assertEqual(find(), made / "bin" / "python")
            (peers / "some_install.py").write_text("print()\n")
            with self.assertRaises(Unavailable):
                find()
            (peers / "some_install.py").unlink()
            (peers / "some-requirements.txt").write_text("some==2\n")
            with self.assertRaises(Unavailable):
                find()


    def test_a_file_of_two_distributions_is_linked_once_and_others_keep_theirs(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "source", Path(folder) / "target"
            (source / "some-1.dist-info").mkdir(parents=True)
            (source / "some-1.dist-info" / "RECORD").write_text("shared.py,,\n")
            (source / "shared.py").write_text("new")
            target.mkdir()
            (Path(folder) / "old.py").write_text("old")
            (target / "shared.py").hardlink_to(Path(folder) / "old.py")
            for _ in range(2):
                link_distribution(source, "some-1.dist-info", target)
            self.assertTrue((target / "shared.py").samefile(source / "shared.py"))
            self.assertEqual((Path(folder) / "old.py").read_text(), "old")


class CompiledTest(unittest.TestCase):
    LINES = """{"case": "2 x 1 KiB", "contender": "tandem", "value": 3, "unit": "us", "p99": 9, "samples": 5}
{"case": "2 x 1 KiB", "contender": "memcpy", "value": 1, "unit": "us"}
{"case": "2 x 2 KiB", "contender": "tandem", "value": 4, "unit": "us"}"""

    def test_lines_become_a_sample_a_contender(self):
        samples = read_lines(self.LINES, "us")
        self.assertEqual(samples["tandem"].values, {"2 x 1 KiB": 3, "2 x 2 KiB": 4})
        self.assertEqual(samples["tandem"].facts["2 x 1 KiB"], {"p99": 9, "samples": 5})
        self.assertEqual(samples["memcpy"].values, {"2 x 1 KiB": 1})

    def test_a_case_has_its_own_limit_and_times(self):
        class Compiled(CompiledBench):
            program, unit, better = "program", "us", Better.LOWER
            inside = ("tandem", "memcpy")
            limits, targets = {"2 x 2 KiB": 3.5}, {"2 x 1 KiB": {"memcpy": 0.25}}

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program"
            path.write_text(f"#!/bin/sh\ncat <<'LINES'\n{self.LINES}\nLINES\n")
            path.chmod(0o755)
            place = Place(root=Path(folder), programs=Path(folder), peers=None, scratch=Path(folder))
            result = measure(Compiled(place), Size.FULL, repeats=1)
        first, second = result.metrics
        self.assertEqual((first.at_most, dict(first.at_least_times), result.met(first)), (None, {"memcpy": 0.25}, True))
        self.assertEqual((second.at_most, dict(second.at_least_times), result.met(second)), (3.5, {}, False))

    def test_nothing_and_another_unit_are_wrong_answers(self):
        with self.assertRaisesRegex(WrongAnswer, "no numbers"):
            read_lines("", "us")
        with self.assertRaisesRegex(WrongAnswer, "in us where 1/s"):
            read_lines(self.LINES, "1/s")


class ProcessTest(unittest.TestCase):
    def python(self, code, **more):
        return run([sys.executable, "-c", code], **more)

    def test_a_failure_comes_with_what_was_printed(self):
        with self.assertRaisesRegex(Failed, r"ended with 3:\nalas"):
            self.python("import sys; print('alas', file=sys.stderr); sys.exit(3)")

    def test_a_program_that_is_not_there_is_a_failure_like_others(self):
        with self.assertRaisesRegex(Failed, "/no/such/program cannot be started"):
            run(["/no/such/program"])

    def test_a_process_that_does_not_end_is_killed(self):
        with self.assertRaisesRegex(Failed, "did not end within"):
            self.python("import time; time.sleep(60)", timeout_s=0.3)

    def test_memory_is_that_of_the_child(self):
        # Both are far above this process, whose memory a child has until its program begins.
        small = self.python("x = bytes(1) * 100_000_000").peak_rss_mb
        large = self.python("x = bytes(1) * 200_000_000").peak_rss_mb
        self.assertTrue(90 < large - small < 110, (small, large))

    def test_what_is_watched_is_timed_from_the_start(self):
        looks = iter([False, False, True])
        done = self.python("import time; time.sleep(3)", watch=lambda: next(looks))
        self.assertGreater(done.watched_s, 0)
        self.assertLess(done.watched_s, done.wall_s - 1)

    def test_the_callers_number_of_threads_does_not_leak(self):
        os.environ["OMP_NUM_THREADS"] = "7"
        try:
            code = "import os; print(os.environ.get('OMP_NUM_THREADS'))"
            self.assertEqual(self.python(code).stdout, "None\n")
            self.assertEqual(self.python(code, environment={"OMP_NUM_THREADS": "1"}).stdout, "1\n")
        finally:
            del os.environ["OMP_NUM_THREADS"]


if __name__ == "__main__":
    unittest.main()
