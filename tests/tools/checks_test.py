"""Shows each fault that the checks of tools/ know to them once, in a small tree of its own."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_comments  # noqa: E402
import check_layers  # noqa: E402
import check_public  # noqa: E402
import check_sizes  # noqa: E402
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
        self.assert_fault(self.faults("tandem/model/a.cc", '"tandem/sync/a.h"'), "tandem/model/a.cc:2", "layer sync",
        "base")

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
            "long line of Markdown": ("docs/a.md", "word " * 30 + "\n"),
            "long line of Python": ("tools/a.py", "a = '" + "a" * 130 + "'\n"),
            "long line of CMake": ("cmake/a.cmake", "set(a " + "a" * 130 + ")\n"),
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

    def test_tables_code_and_links_may_be_wide(self):
        wide = "word " * 30 + "end"
        text = f"| {wide} |\n```\n{wide}\n```\n[a page]({'a' * 130}.md)\n"
        self.assertEqual(self.faults("docs/a.md", text), [])

    def test_what_the_library_may_not_the_program_and_tests_may(self):
        text = 'std::cerr << std::getenv("HOME");\nstd::jthread worker([] {});\nstd::exit(2);\n'
        for path in ("tandem/app/main.cc", "tandem/base/a_test.cc", "bench/a.cc"):
            self.assertEqual(self.faults(path, text), [])


class PublicTest(Tree):
    def setUp(self):
        super().setUp()
        self.write("cmake/PublicHeaders.cmake", "# not/this.h\nset(TANDEM_PUBLIC_HEADERS\n  base/a.h\n  sync/b.h\n)\n")
        self.guide("`tandem/base/a.h`, `tandem/sync/b.h` | `tandem/base/c.h` is beside the point")
        for header in ("base/a.h", "sync/b.h", "base/c.h"):
            self.write(f"tandem/{header}", "")

    def guide(self, row: str):
        self.write("README.md", f"`tandem/early.h`\n\n## Guide to the headers\n\n| {row} |\n\n## Status\n")

    def assert_fault(self, *words: str):
        faults = check_public.faults(self.root)
        self.assertEqual(len(faults), 1, faults)
        for word in words:
            self.assertIn(word, faults[0])

    def test_a_guide_with_the_same_headers_and_users_that_include_them_have_none(self):
        self.write("examples/a/main.cc", '#include "tandem/base/a.h"\n#include <tandem/sync/b.h>\n#include <vector>\n')
        self.assertEqual(check_public.faults(self.root), [])

    def test_both_differences_between_list_and_guide_are_seen(self):
        self.guide("`tandem/base/a.h`")
        self.assert_fault("guide lacks tandem/sync/b.h")
        self.guide("`tandem/base/a.h`, `tandem/sync/b.h`, `tandem/base/c.h`")
        self.assert_fault("lacks tandem/base/c.h, which the guide names")

    def test_forty_are_the_most(self):
        names = [f"base/h{number}.h" for number in range(41)]
        for name in names:
            self.write(f"tandem/{name}", "")
        self.write("cmake/PublicHeaders.cmake", "set(TANDEM_PUBLIC_HEADERS " + " ".join(names) + ")\n")
        self.guide(", ".join(f"`tandem/{name}`" for name in names))
        self.assert_fault("41 public headers, more than 40")

    def test_a_listed_header_exists(self):
        (self.root / "tandem/sync/b.h").unlink()
        self.assert_fault("there is no tandem/sync/b.h")

    def test_users_include_nothing_else(self):
        for path in ("examples/a/main.cc", "tests/package/a/main.cc", "tests/readme/a.cc", "docs/a.md"):
            with self.subTest(path):
                self.write(path, "#include <tandem/base/c.h>\n")
                self.assert_fault(path, "tandem/base/c.h", "not public")
                (self.root / path).unlink()

    def test_the_header_of_mujocos_tasks_may_be_included(self):
        self.write("tests/readme/a.cc", f"#include <{check_public.OF_ANOTHER_PACKAGE}>\n")
        self.assertEqual(check_public.faults(self.root), [])


class SizesTest(Tree):
    def setUp(self):
        super().setUp()
        subprocess.run(["git", "init", "--quiet", self.root], check=True)
        check_sizes.ROOT, before = self.root, check_sizes.ROOT
        self.addCleanup(setattr, check_sizes, "ROOT", before)

    def function(self, lines: int) -> str:
        return "int f(int a,\n      int b) {\n" + "  a += b;\n" * (lines - 4) + "  return a;\n}\n"

    def test_a_function_may_have_sixty_lines(self):
        self.write("tandem/base/a.cc", "namespace tandem {\n\n" + self.function(60) + "\n}  // namespace tandem\n")
        self.assertEqual(check_sizes.faults(), [])

    def test_a_longer_one_is_named_with_its_lines(self):
        self.write("tandem/base/a.cc", "namespace tandem {\n\n" + self.function(61) + "\n}  // namespace tandem\n")
        found = check_sizes.faults()
        self.assertEqual(len(found), 1, found)
        self.assertIn("tandem/base/a.cc:3: a function of 61 lines", found[0])

    def test_a_member_within_its_class_is_measured_as_well(self):
        member = "\n".join("  " + line for line in self.function(61).splitlines())
        self.write("tandem/base/a.h", "struct A {\n" + member + "\n};\n")
        self.assertEqual(len(found := check_sizes.faults()), 1, found)
        self.assertIn("tandem/base/a.h:2: a function of 61 lines", found[0])

    def test_a_folder_has_forty_files_and_tests_do_not_count(self):
        for number in range(40):
            self.write(f"tandem/base/a{number}.h", "int a;\n")
            self.write(f"tandem/base/a{number}_test.cc", "int a;\n")
        self.assertEqual(check_sizes.faults(), [])
        self.write("tandem/base/b.h", "int b;\n")
        self.assertEqual(len(found := check_sizes.faults()), 1, found)
        self.assertIn("41 product files", found[0])


class CommentsTest(Tree):
    def setUp(self):
        super().setUp()
        check_comments.ROOT, before = self.root, check_comments.ROOT
        self.addCleanup(setattr, check_comments, "ROOT", before)
        subprocess.run(["git", "init", "--quiet"], cwd=self.root, check=True)

    def write_both(self, header: str, source: str):
        self.write("tandem/base/a.h", header)
        self.write("tandem/base/a.cc", source)

    def test_enough_comments_with_their_subject_have_no_fault(self):
        self.write_both("// A counter.\n\nint a();\n", "// Counts from one.\nint a() { return 1; }\n")
        self.assertEqual(check_comments.faults(), [])

    def test_too_few_lines_of_comments_are_a_fault_of_headers_and_of_sources(self):
        self.write_both("// A counter.\n" + "int a();\n" * 3, "// Counts from one.\n" + "int b;\n" * 20)
        found = check_comments.faults()
        self.assertEqual(len(found), 2, found)
        self.assertIn("headers: 25.0%", found[0])
        self.assertIn(".cc files: 4.8%", found[1])

    def test_comments_without_their_subject_are_named(self):
        self.write_both("// Of the counter.\nint a();  // Likewise, later.\n", "// Counts.\nint a() { return 1; }\n")
        found = check_comments.faults()
        self.assertEqual(found[:2], ["tandem/base/a.h:1: Of the counter.", "tandem/base/a.h:2: Likewise, later."])
        self.assertIn("66.7%", found[2])

    def test_a_text_with_slashes_is_no_comment_and_tests_do_not_count(self):
        self.write_both("// A place.\nint a();\n", '// Names it.\nauto a = "http://Of";\n')
        self.write("tandem/base/a_test.cc", "// Of no interest.\n" + "int a;\n" * 100)
        self.assertEqual(check_comments.faults(), [])


if __name__ == "__main__":
    unittest.main()
