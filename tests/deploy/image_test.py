#!/usr/bin/env python3
"""The image of deploy/Containerfile: its lines are carried out in an empty Debian, and what comes of them trains as a
container would: as its user, without privileges, network or other processes, and with nothing to write to but its
runs.

    image_test.py BASE [PREFIX]

BASE is the file in which the empty Debian is kept (empty_root.py). With PREFIX, in which `make install` has installed
on a Debian 12, only the last stage is made. Exits with 77, which counts as skipped, where there can be no such root.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import empty_root
from hosts import SKIPPED, lacking, own_namespaces, wait_until

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300
TRAINING = ["train", "--env", "CartPole-v1", "--seed", "5", "--shards", "2", "--quiet"]


class ImageTest(unittest.TestCase):
    base = prefix = None

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.mkdtemp(prefix="tandem-image-")
        cls.addClassCleanup(cls.remove, Path(scratch))
        empty_root.make_base(cls.base)
        cls.stages = empty_root.build(Path(scratch) / "image", cls.base, cls.prefix)
        cls.image = cls.stages[""]
        cls.runs = cls.image.at("/work/runs")
        cls.mount("--bind", str(cls.image.root), str(cls.image.root))
        cls.mount("-o", "remount,bind,ro", str(cls.image.root))
        cls.mount("-t", "tmpfs", "-o", "uid=10001,gid=10001", "tmpfs", str(cls.runs))

    @staticmethod
    def mount(*words: str) -> None:
        subprocess.run(["mount", *words], check=True)

    @staticmethod
    def remove(scratch: Path) -> None:
        mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for place in reversed([place for place in mounted if place.startswith(f"{scratch}/")]):
            subprocess.run(["umount", "--lazy", place], check=True)
        shutil.rmtree(scratch)

    def start(self, *words: str) -> subprocess.Popen:
        """A container, whose first process is the program."""
        own = ["unshare", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts"]
        own.append(f"--mount-proc={self.image.at('/proc')}")
        command = [*own, "--", *self.image.enter(), "OMP_NUM_THREADS=1", *self.image.entry_point, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_container(self, *words: str) -> str:
        """What it printed; it must not complain."""
        out, err = (process := self.start(*words)).communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, err), (0, ""), out)
        return out

    def summary(self, name: str) -> dict:
        return json.loads((self.runs / name / "summary.json").read_text())

    def test_the_image_has_what_runs_and_no_more(self):
        self.assertIn("tandem", self.run_container("version"))
        self.assertIn("train", self.run_container(*self.image.command))
        self.assertFalse(self.image.at("/usr/bin/g++").exists())
        self.assertFalse(self.image.at(f"{empty_root.PREFIX}/include").exists())
        self.assertNotIn(self.image.user.split(":")[0], ["0", "root"])

    def test_ranks_in_a_container_end_in_the_bits_of_one_process(self):
        few = ["--total-steps", "8192"]
        self.run_container(*TRAINING, *few, "--devices", "cpu:2", "--run-dir", "runs/alone")
        self.run_container(*TRAINING, *few, "--ranks", "2", "--run-dir", "runs/ranks")
        self.assertEqual(self.summary("alone")["state_sha256"], self.summary("ranks")["state_sha256"])
        self.assertEqual((self.runs / "ranks" / "curve.png").stat().st_uid, 10001)
        self.run_container("eval", "runs/ranks", "--episodes", "2")

    def test_a_plugin_is_built_by_the_stage_before(self):
        if self.prefix:
            self.skipTest("the stage was not made")
        stage = self.stages["build"]
        shutil.copytree(ROOT / "examples" / "plugin_env", stage.at("/plugin"))
        page = (ROOT / "docs" / "deployment.md").read_text()
        (command,) = re.findall(r'^  "(cmake -B build .*)"$', page, re.MULTILINE)
        stage.run(["sh", "-c", f"cd /plugin && {command}"])
        shutil.copy(stage.at("/plugin/build/libgrid_world.so"), self.runs)
        training = ["train", "--plugin", "runs/libgrid_world.so", "--env", "GridWorld-v0", "--quiet"]
        self.run_container(*training, "--total-steps", "512", "--run-dir", "runs/grid")

    def test_nothing_else_can_be_written(self):
        process = self.start(*TRAINING, "--total-steps", "512", "--run-dir", "elsewhere")
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("Read-only file system", err)

    def test_a_container_that_is_stopped_goes_on_later(self):
        """podman stop, docker stop and the kubelet send SIGTERM to the first process."""
        metrics = self.runs / "stopped" / "metrics.jsonl"
        command = [*TRAINING, "--ranks", "2", "--run-dir", "runs/stopped", "--resume", "auto"]
        container = self.start(*command, "--total-steps", "100000")
        wait_until("ten updates", lambda: metrics.exists() and metrics.read_text().count("\n") >= 10)
        (first,) = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        _, err = container.communicate(timeout=LIMIT_S)
        self.assertEqual(container.returncode, 130, err)
        self.assertEqual(self.summary("stopped")["end"], "stopped")
        self.run_container(*command, "--total-steps", "100000")
        self.run_container(*TRAINING, "--devices", "cpu:2", "--run-dir", "runs/undisturbed", "--total-steps", "100000")
        self.assertEqual(self.summary("stopped")["state_sha256"], self.summary("undisturbed")["state_sha256"])


if __name__ == "__main__":
    reason = lacking(["debootstrap", "chroot", "setpriv"])
    if not reason and len(sys.argv) > 2 and not empty_root.is_debian_12():
        reason = "what is installed here was not built on a Debian 12"
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    own_namespaces(own_network=False)
    ImageTest.base, *prefix = map(Path, sys.argv[1:])
    ImageTest.prefix = prefix[0].resolve() if prefix else None
    del sys.argv[1:]
    unittest.main(verbosity=2)
