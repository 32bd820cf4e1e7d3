"""Shows each fault that tools/check_layers.py and tools/check_text.py know to them once, in a small tree of its own."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402
import check_text  # noqa: E402

LAYERS = """
# tandem_layer(NAME ghost) is a comment
tandem_layer(NAME base)
tandem_layer(NAME model TORCH DEPENDS base)
tandem_layer(NAME sync TORCH DEPENDS model)
tandem_layer(NAME learner TORCH DEPENDS sync)
tandem_layer(NAME env FOLDER rl/env DEPENDS base)
tandem_layer(NAME algo TORCH FOLDER rl/algo DEPENDS learner env NEVER sync)
"""


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("tandem/CMakeLists.txt", LAYERS)

    def write(self, path: str, text: str) -> str:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return path


class LayersTest(Tree):
    def faults(self, path: str, *includes: str) -> list[str]:
        layers, declared = check_layers.read_layers(self.root)
        self.assertEqual(declared, [])
        self.write(path, "#pragma once\n" + "".join(f"#include {name}\n" for name in includes))
        return check_layers.file_faults(self.root, path, layers)

    def assert_fault(self, faults: list[str], *words: str):
        self.assertEqual(len(faults), 1, faults)
        for word in words:
            self.assertIn(word, faults[0])

    def test_what_is_below_may_be_included(self):
        includes = ['"tandem/base/a.h"', '"tandem/model/a.h"', '"tandem/sync/a.h"', "<torch/types.h>", "<vector>"]
        self.assertEqual(self.faults("tandem/learner/a.cc", *includes), [])

    def test_what_is_above_may_not(self):
        self.assert_fault(self.faults("tandem/model/a.cc", '"tandem/sync/a.h"'), "tandem/model/a.cc:2", "layer sync", "base")

    def test_a_sibling_may_not(self):
        self.assert_fault(self.faults("tandem/rl/env/a.h", '"tandem/model/a.h"'), "layer env", "layer model")

    def test_never_holds_although_another_layer_leads_there(self):
        self.assertEqual(self.faults("tandem/rl/algo/a.cc", '"tandem/learner/a.h"', '"tandem/model/a.h"'), [])
        self.assert_fault(self.faults("tandem/rl/algo/a.cc", '"tandem/sync/a.h"'), "layer algo", "layer sync")

    def test_a_layer_without_torch_includes_none_of_it(self):
        self.assert_fault(self.faults("tandem/rl/env/a_test.cc", "<ATen/core/Tensor.h>"), "env is without TORCH")

    def test_no_header_includes_all_of_torch(self):
        self.assertEqual(self.faults("tandem/model/a.cc", "<torch/torch.h>"), [])
        self.assert_fault(self.faults("tandem/model/a.h", "<torch/torch.h>"), "a.h:2", "narrow")
        self.assert_fault(self.faults("examples/a.h", "<torch/torch.h>"), "narrow")

    def test_the_program_may_include_everything_and_others_nothing_of_it(self):
        self.assertEqual(self.faults("tandem/app/a.cc", '"tandem/rl/algo/a.h"', '"tandem/sync/a.h"'), [])
        self.assert_fault(self.faults("tandem/learner/a.cc", '"tandem/app/a.h"'), "belongs to no layer")

    def test_a_folder_that_is_no_layer_is_named(self):
        self.assert_fault(self.faults("tandem/stray/a.cc"), "tandem/stray/a.cc", "no layer")

    def test_an_include_starts_from_the_top(self):
        self.write("tandem/model/b.h", "")
        self.assert_fault(self.faults("tandem/model/a.h", '"b.h"'), "from the top")

    def test_declarations_point_downwards(self):
        self.write("tandem/CMakeLists.txt", "tandem_layer(NAME a TORCH DEPENDS b)\ntandem_layer(NAME b DEPENDS a)\n")
        _, faults = check_layers.read_layers(self.root)
        self.assertEqual(len(faults), 2, faults)
        self.assertIn("not declared before", faults[0])
        self.assertIn("without TORCH", faults[1])


class TextTest(Tree):
    def setUp(self):
        super().setUp()
        check_text.ROOT, before = self.root, check_text.ROOT
        self.addCleanup(setattr, check_text, "ROOT", before)

    def faults(self, path: str, text: str) -> list[str]:
        return check_text.file_faults(self.write(path, text))

    def test_a_plain_file_has_none(self):
        self.assertEqual(self.faults("tandem/base/a.cc", "int a = 1;  // std::exit(1) is for the program\n"), [])

    def test_each_fault_is_seen(self):
        seen = {
            "long file": ("tandem/base/a.cc", "int a;\n" * 401),
            "no end": ("docs/a.md", "text"),
            "unfinished": ("tools/a.py", "# TO" "DO: more\n"),
            "blanks": ("tandem/base/a.cc", "int a; \n"),
            "long line": ("tandem/base/a.cc", "int a" + "a" * 130 + ";\n"),
            "bare mutex": ("tandem/model/a.h", "std::mutex mutex_;\n"),
            "bare thread": ("tandem/model/a.cc", "std::jthread worker([] {});\n"),
            "sleep": ("tandem/comm/a.cc", "std::this_thread::sleep_for(1s);\n"),
            "environment": ("tandem/comm/a.cc", 'std::getenv("RANK");\n'),
            "print": ("tandem/model/a.cc", "std::cerr << 1;\n"),
            "exit": ("tandem/model/a.cc", "std::exit(1);\n"),
        }
        for name, (path, text) in seen.items():
            with self.subTest(name):
                self.assertEqual(len(self.faults(path, text)), 1)

    def test_what_the_library_may_not_the_program_and_tests_may(self):
        text = 'std::cerr << std::getenv("HOME");\nstd::jthread worker([] {});\nstd::exit(2);\n'
        for path in ("tandem/app/main.cc", "tandem/base/a_test.cc", "bench/a.cc"):
            self.assertEqual(self.faults(path, text), [])


if __name__ == "__main__":
    unittest.main()
