#!/usr/bin/env python3
"""Binaries are hardened as distributions harden theirs, and find their libraries only where nobody else can put one:
what `make install` has put under a prefix, and the programs of the build folder, as readelf shows them.

PREFIX and BUILD are the two folders; LIBTORCH is where LibTorch lies, LIBTORCH_IS how installed programs find it (copy
or refer, cmake/TandemRunPath.cmake), and FORTIFY the level of _FORTIFY_SOURCE, which is empty where the build is not
hardened (cmake/TandemHardening.cmake).
"""

import json
import os
import platform
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREFIX = Path(os.environ["PREFIX"])
BUILD = Path(os.environ["BUILD"])
LIBTORCH = Path(os.environ["LIBTORCH"])
REFERS = os.environ["LIBTORCH_IS"] == "refer"
FORTIFY = os.environ["FORTIFY"]
X86 = platform.machine() == "x86_64"
COPIES = ("torch", "nvidia")  # of LibTorch, below lib/tandem: these are as their makers built them


def read(file: Path, *what: str) -> str:
    shown = subprocess.run(["readelf", "-W", *what, file], capture_output=True, text=True, check=True, timeout=60)
    return shown.stdout


def is_elf(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as data:
        return data.read(4) == b"\x7fELF"


def installed(pattern: str) -> list[Path]:
    of_libtorch = [PREFIX / lib / "tandem" / name for lib in os.listdir(PREFIX) for name in COPIES]
    return [file for file in sorted(PREFIX.rglob(pattern)) if not any(file.is_relative_to(at) for at in of_libtorch)]


def run_path(file: Path) -> list[str]:
    found = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", read(file, "-d"))
    return [element for path in found for element in path.split(":")]


def faults_of(file: Path) -> list[str]:
    """What a program or a shared library lacks. A small library calls nothing that is fortified or asserted. The marks
    of CET are looked at in the objects of archives: a program has them only where the C library's own objects do, and
    Debian's do not."""
    headers, dynamic, symbols = read(file, "-lh"), read(file, "-d"), read(file, "--dyn-syms")
    is_program = "INTERP" in headers
    has = {
        "position-independent code": re.search(r"Type: +DYN", headers) and (not is_program or "PIE" in dynamic),
        "RELRO": "GNU_RELRO" in headers,
        "BIND_NOW": re.search(r"\((?:FLAGS|FLAGS_1)\).*\b(?:BIND_)?NOW\b", dynamic),
        "a stack that is not executable": re.search(r"GNU_STACK.* RW +0x", headers),
        "code without relocations": "TEXTREL" not in dynamic,
        "the stack protector": "__stack_chk_fail" in symbols,
        "FORTIFY": not is_program or FORTIFY == "0" or re.search(r" __\w+_chk@", symbols),
        "assertions of the standard library": not is_program or "__glibcxx_assert_fail" in symbols,
    }
    return [f"{file.relative_to(PREFIX)}: lacks {what}" for what, is_there in has.items() if not is_there]


class HardeningTest(unittest.TestCase):
    def setUp(self):
        if FORTIFY == "":
            self.skipTest("TANDEM_HARDEN is off")

    def test_installed_programs_and_libraries_are_hardened(self):
        binaries = [file for file in installed("*") if is_elf(file)]
        self.assertIn(PREFIX / "bin/tandem", binaries)
        self.assertEqual([fault for file in binaries for fault in faults_of(file)], [])

    def test_every_object_of_installed_archives_is(self):
        archives = installed("*.a")
        self.assertGreater(len(archives), 10)
        for archive in archives:
            # An archive is read member by member; those for which there is nothing to protect have no such symbol.
            symbols = read(archive, "-s")
            self.assertIn("__stack_chk_fail", symbols, archive)
            if X86:
                members = read(archive, "-n").split("\nFile: ")[1:]
                self.assertGreater(len(members), 0, archive)
                unmarked = [member.split("\n")[0] for member in members if "x86 feature: IBT, SHSTK" not in member]
                self.assertEqual(unmarked, [], archive)

    def test_every_source_of_the_library_is_compiled_at_the_level_that_the_compiler_has(self):
        # The level cannot be read off the calls in a binary.
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        ours = [entry for entry in commands if re.search(r" -o (\S*/)?tandem/(app/)?CMakeFiles/", entry["command"])]
        self.assertGreater(len(ours), 20)
        if FORTIFY != "0":
            self.assertIn(FORTIFY, ("2", "3"))
            self.assertEqual([e["file"] for e in ours if f"-D_FORTIFY_SOURCE={FORTIFY}" not in e["command"]], [])


class RunPathTest(unittest.TestCase):
    def assert_elements(self, file: Path, may_be_absolute: list[Path]):
        for element in run_path(file):
            where = Path(element)
            self.assertTrue(
                re.match(r"\$ORIGIN(/|$)", element) or where in may_be_absolute,
                f"{file}: '{element}' is an element of its run path, {run_path(file)}",
            )

    def test_of_an_installed_copy_is_relative_to_it_or_libtorchs_own_place_by_choice(self):
        binaries = [file for file in installed("*") if is_elf(file)]
        self.assertGreater(len(binaries), 0)
        for file in binaries:
            self.assert_elements(file, [LIBTORCH / "lib"] if REFERS else [])

    def test_of_what_is_built_has_no_empty_element(self):
        binaries = [file for folder in ("bin", "lib") for file in sorted((BUILD / folder).iterdir()) if is_elf(file)]
        self.assertGreater(len(binaries), 0)
        for file in binaries:
            self.assert_elements(file, [LIBTORCH / "lib"])

    def test_libraries_in_the_current_folder_are_not_loaded(self):
        for program in (BUILD / "bin/tandem", PREFIX / "bin/tandem"):
            with tempfile.TemporaryDirectory() as planted:
                for name in re.findall(r"\(NEEDED\).*\[(.*)\]", read(program, "-d")):
                    (Path(planted) / name).touch()  # the loader would say of it "file too short"
                done = subprocess.run([program, "version"], cwd=planted, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_installed_program_with_a_copy_of_libtorch_loads_nothing_of_the_checkout(self):
        if REFERS:
            self.skipTest("installed programs refer to LibTorch's own place")
        traced = subprocess.run([PREFIX / "bin/tandem"], env=os.environ | {"LD_TRACE_LOADED_OBJECTS": "1"},
                                capture_output=True, text=True, check=True, timeout=60)
        loaded = [Path(os.path.normpath(path)) for path in re.findall(r" => (/\S+)", traced.stdout)]
        self.assertIn("libtorch_cpu.so", [path.name for path in loaded])
        outside = [path for path in loaded if path.is_relative_to(ROOT) and not path.is_relative_to(PREFIX)]
        self.assertEqual(outside, [])


if __name__ == "__main__":
    unittest.main()
