"""What resident_memory.py judges, and that it can fail."""

import subprocess
import sys
import unittest

from resident_memory import resident_mb, verdict, watch

WARM_UP = 60


class ResidentMemoryTest(unittest.TestCase):
    def test_the_warm_up_is_left_out_and_every_later_reading_counts(self):
        flat = [(t, 50.0 + t if t < WARM_UP else 200.0) for t in range(180)]
        self.assertEqual(verdict(flat, WARM_UP), (200.0, 1.0, 1.0))
        flat[120] = (120, 190.0)
        flat[170] = (170, 206.0)
        self.assertEqual(verdict(flat, WARM_UP), (200.0, 0.95, 1.03))

    def test_a_process_that_takes_memory_is_seen_to(self):
        takes = "import time; kept = []\nwhile True: kept.append(b'1' * 20_000_000); time.sleep(0.5)"
        process = subprocess.Popen([sys.executable, "-c", takes])
        try:
            readings = watch(process, 3)
        finally:
            process.kill()
            process.wait()
        self.assertGreater(readings[-1][1], readings[0][1] + 20)

    def test_a_process_that_is_gone_has_none(self):
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        self.assertRaises((FileNotFoundError, ValueError), resident_mb, process.pid)
        self.assertEqual(watch(process, 5), [])


if __name__ == "__main__":
    unittest.main()
