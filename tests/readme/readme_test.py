#!/usr/bin/env python3
"""What the documents say has to be true: programs in README.md compile and work, and whatever is pointed to exists.

DATA_PARALLEL, CORRIDOR and TANDEM name the built example, plugin and program; TANDEM is empty where there is none.
"""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHOWN = re.compile(r"<!-- (tests/readme/\S+) -->\n```cpp\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE_PATH = re.compile(r"`((?:tandem|bench|tests|examples|configs|tools|docs|cmake)/[\w./-]+)`")


class ReadmeTest(unittest.TestCase):
    def test_programs_are_shown_word_for_word(self):
        shown = dict(SHOWN.findall((ROOT / "README.md").read_text()))
        self.assertEqual(sorted(shown), ["tests/readme/corridor.cc", "tests/readme/data_parallel.cc"])
        for path, text in shown.items():
            self.assertEqual(text, (ROOT / path).read_text(), f"README.md differs from {path}")

    def test_the_data_parallel_program_learns(self):
        done = subprocess.run([os.environ["DATA_PARALLEL"]], capture_output=True, text=True, check=True, timeout=120)
        losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
        self.assertEqual(len(losses), 10)
        self.assertLess(losses[-1], losses[0] / 3, losses)

    @unittest.skipUnless(os.environ.get("TANDEM"), "this build has no program")
    def test_the_program_trains_the_corridor(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            command = [
                os.environ["TANDEM"],
                "train",
                "--plugin",
                os.environ["CORRIDOR"],
                "--env",
                "Corridor-v0",
                "--total-steps",
                "40960",
                "--seed",
                "1",
                "--run-dir",
                run,
                "--quiet",
            ]
            subprocess.run(command, check=True, timeout=240)
            summary = json.loads((run / "summary.json").read_text())
        self.assertIsNotNone(summary["solved_at_env_steps"], summary["episode_return_mean"])


class DocumentsTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            for target in LINK.findall(FENCE.sub("", document.read_text())):
                if not re.match(r"[a-z]+:", target):
                    self.assertTrue(
                        (document.parent / target).exists(), f"{document.relative_to(ROOT)} links to {target}"
                    )

    def test_files_that_are_named_exist(self):
        for document in DOCUMENTS:
            for path in CODE_PATH.findall(document.read_text()):
                self.assertTrue((ROOT / path).exists(), f"{document.relative_to(ROOT)} names {path}")


if __name__ == "__main__":
    unittest.main()
