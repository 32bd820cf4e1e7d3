"""What replay_run.py reads from a run folder."""

import json
import os
import tempfile
import unittest
from pathlib import Path

from replay_run import new_bytes, spans


class ReplayRunTest(unittest.TestCase):
    def test_a_file_that_two_checkpoints_share_was_written_once(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for name in ("u1", "u2"):
                (folder / name).mkdir()
                (folder / name / "state").write_bytes(b"1234")
            (folder / "u1" / "segment").write_bytes(b"1234567890")
            os.link(folder / "u1" / "segment", folder / "u2" / "segment")
            self.assertEqual(new_bytes(folder), [("u1", 14, 14), ("u2", 14, 4)])

    def test_spans_are_found_by_their_name(self):
        with tempfile.TemporaryDirectory() as scratch:
            events = [{"name": "checkpoint", "ph": "X", "dur": 1500}, {"name": "update", "ph": "X", "dur": 7},
                      {"name": "thread_name", "ph": "M", "args": {"name": "checkpoint"}}]
            (Path(scratch) / "trace.json").write_text(json.dumps({"traceEvents": events}))
            self.assertEqual(spans(Path(scratch), "checkpoint"), [1.5])


if __name__ == "__main__":
    unittest.main()
