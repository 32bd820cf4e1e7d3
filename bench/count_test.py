"""The laws of tools/count: what is a fault, and what its message says."""

import importlib.machinery
import importlib.util
import json
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def load_count():
    loader = importlib.machinery.SourceFileLoader("count", str(ROOT / "tools" / "count"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("count", loader))
    loader.exec_module(module)
    return module


count = load_count()


class FaultTest(unittest.TestCase):
    def test_within_the_tolerance_on_both_sides_is_no_fault(self):
        for counted in (970, 1000, 1030):
            self.assertIsNone(count.fault_of("work", counted, 1000, 0.03), counted)

    def test_beyond_it_the_message_has_the_work_both_numbers_and_the_way_on(self):
        slower = count.fault_of("work", 1_100_000, 1_000_000, 0.03)
        for word in ("work", "1,100,000", "1,000,000", "+10.0 %", "tolerance 3 %", "tools/count --accept work"):
            self.assertIn(word, slower)
        self.assertIn("faster", count.fault_of("work", 900_000, 1_000_000, 0.03))

    def test_work_without_a_bound_is_a_fault(self):
        self.assertIn("no bound is recorded", count.fault_of("work", 1, None, 0.03))


class ElsewhereTest(unittest.TestCase):
    def test_another_compiler_or_processor_is_named(self):
        recorded = {"compiler": "gcc 12", "processor": "AuthenticAMD"}
        self.assertEqual(count.elsewhere(recorded, {"compiler": "gcc 12", "processor": "AuthenticAMD"}), [])
        self.assertEqual(
            count.elsewhere(recorded, {"compiler": "gcc 13", "processor": "GenuineIntel"}),
            ["recorded with gcc 12, this is gcc 13", "recorded with AuthenticAMD, this is GenuineIntel"],
        )


class BoundsTest(unittest.TestCase):
    def test_the_recorded_bounds_say_their_tolerance_and_compiler(self):
        recorded = json.loads(count.BOUNDS.read_text())
        self.assertGreater(recorded["tolerance"], 0)
        self.assertTrue(recorded["compiler"])
        self.assertTrue(recorded["processor"])
        self.assertTrue(all(bound > 0 for bound in recorded["instructions"].values()))


if __name__ == "__main__":
    unittest.main()
