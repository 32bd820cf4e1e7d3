#!/usr/bin/env python3
"""Who has a LibTorch already points to it, and nothing is downloaded: tools/bootstrap and tools/build, in a copy of the
sources that has neither a LibTorch nor a build folder, beside a package index that writes down what it is asked for.

TORCH_ROOT names the LibTorch to point to.
"""

import http.server
import os
import re
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORCH = Path(os.environ["TORCH_ROOT"])
LEFT_OUT = {"build", ".venv", ".cache", ".git", "runs"}
ONLY_PROGRAM = "-DTANDEM_BUILD_TESTS=OFF -DTANDEM_BUILD_BENCH=OFF -DTANDEM_BUILD_EXAMPLES=OFF"
MEANT_FOR_TEST = ("LIBTORCH", "CMAKE_PREFIX_PATH", "CMAKE_ARGS")


class Index(http.server.BaseHTTPRequestHandler):
    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        self.send_error(404)

    def log_message(self, *_):
        pass


class OwnLibTorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.sources = Path(folder.name) / "tandem"
        shutil.copytree(ROOT, cls.sources, ignore=lambda at, _: LEFT_OUT if Path(at) == ROOT else set(), symlinks=True)
        cls.index = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        cls.addClassCleanup(cls.index.server_close)
        threading.Thread(target=cls.index.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.index.shutdown)

    def setUp(self):
        Index.asked.clear()
        for name in (".venv", "build"):
            shutil.rmtree(self.sources / name, ignore_errors=True)

    def tool(self, *command: str, **variables: str) -> subprocess.CompletedProcess:
        kept = {name: value for name, value in os.environ.items()
                if name not in MEANT_FOR_TEST and not re.match("PIP_|.*_PROXY$", name.upper())}
        pip = {"PIP_INDEX_URL": f"http://127.0.0.1:{self.index.server_port}/simple", "PIP_CONFIG_FILE": os.devnull,
               "PIP_RETRIES": "0"}
        return subprocess.run(command, cwd=self.sources, env=kept | pip | variables, capture_output=True, text=True,
                              timeout=240)

    def assert_no_libtorch_downloaded(self):
        # MuJoCo and the tools of the Python package, gymnasium first, are asked for, and done without.
        self.assertLessEqual(set(Index.asked), {"/simple/mujoco-core/", "/simple/gymnasium/"})
        self.assertFalse((self.sources / ".venv/libtorch").exists())

    def assert_used(self, **place: str):
        ready = self.tool("tools/bootstrap", **place)
        self.assertEqual(ready.returncode, 0, ready.stderr)
        # "help" lists targets and builds none.
        configured = self.tool("tools/build", "release", "help", CMAKE_ARGS=ONLY_PROGRAM, **place)
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        self.assertRegex(configured.stdout, rf"-- LibTorch [0-9.]+: {TORCH}\n")
        self.assertIn("tandem: phony", configured.stdout)
        self.assert_no_libtorch_downloaded()

    def test_libtorch_names_its_folder(self):
        self.assert_used(LIBTORCH=str(TORCH))

    def test_the_prefix_path_holds_it(self):
        # As `python -c 'import torch; print(torch.utils.cmake_prefix_path)'` prints it, behind one without a LibTorch.
        self.assert_used(CMAKE_PREFIX_PATH=f"/usr/local:{TORCH}/share/cmake")

    def test_a_folder_without_one_is_refused_and_not_replaced(self):
        refused = self.tool("tools/bootstrap", LIBTORCH=str(self.sources))
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"LIBTORCH={self.sources} holds no lib/libtorch_cpu.so", refused.stderr)
        self.assert_no_libtorch_downloaded()

    def test_one_that_is_too_old_is_refused_by_its_version(self):
        old = self.sources.parent / "old"
        headers = old / "include/torch/csrc/api/include/torch"  # where it has its version.h, and no torch/headeronly
        headers.mkdir(parents=True)
        (headers / "torch.h").touch()
        (headers / "version.h").write_text("".join(
            f"#define TORCH_VERSION_{part} {number}\n" for part, number in (("MAJOR", 2), ("MINOR", 8), ("PATCH", 1))))
        (old / "lib").mkdir()
        (old / "lib/libtorch_cpu.so").touch()
        refused = self.tool("tools/build", "release", "help", CMAKE_ARGS=ONLY_PROGRAM, LIBTORCH=str(old))
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stdout + refused.stderr, r"LibTorch 2\.8\.1 in \S+ is too old:\s+tandem needs 2\.11")

    def test_without_one_the_index_is_asked(self):
        asked = self.tool("tools/bootstrap")
        self.assertEqual(asked.returncode, 2)
        self.assertIn("pip could not install torch==", asked.stderr)
        self.assertIn("/simple/torch/", Index.asked)


if __name__ == "__main__":
    unittest.main()
