#!/usr/bin/env python3
"""The commands that docs/deployment.md shows for mpirun and torchrun, word for word, on two hosts: with the run's
secret they end in the bits of one process, and without it the ranks of the other host refuse to start.

    two_hosts_test.py TANDEM PYTHON TwoHostsTest.test_mpirun | TwoHostsTest.test_torchrun

torchrun is that of PYTHON, which imports torch. Exits with 77, which counts as skipped, where hosts cannot be made
(hosts.py) or the launcher is not there.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import hosts
from hosts import SKIPPED, Hosts, lacking, own_namespaces

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deployment.md"
LIMIT_S = 300
COMMON = "--seed 5 --shards 4 --total-steps 8192 --quiet"
# What mpirun wants of a test: to be root's, to reach hosts without ssh, and to ask nothing of cores.
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "reach",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def shown(command: str) -> str:
    """The block of the page that has it, with a shorter run."""
    blocks = re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (each for each in blocks if re.search(f"^{command} ", each, re.MULTILINE))
    return block.rstrip() + f" {COMMON}\n"


class TwoHostsTest(unittest.TestCase):
    tandem = python = ""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "secret").write_text("the secret of two hosts")
        self.hosts = self.enterContext(Hosts(["host-a", "host-b"]))
        self.write_program("tandem", f'exec {self.tandem} "$@"')
        self.write_program("torchrun", f'exec {self.python} -m torch.distributed.run "$@"')
        ways = [f"{name}) way='{' '.join(self.hosts.enter(n))}';;" for n, name in enumerate(self.hosts.names)]
        self.write_program("reach", f'case $1 in {" ".join(ways)} esac; shift; exec $way sh -c "$*"')

    def write_program(self, name: str, text: str) -> None:
        program = self.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    def start(self, host: int, script: str) -> subprocess.Popen:
        variables = hosts.environment() | OPEN_MPI | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        command = [*self.hosts.enter(host), "sh", "-c", script]
        process = subprocess.Popen(command, cwd=self.folder, env=variables, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(lambda: hosts.end([process]))
        return process

    def expect_the_bits_of_one_process(self, processes: list[subprocess.Popen]) -> None:
        ends = [(process.communicate(timeout=LIMIT_S)[0], process.returncode) for process in processes]
        self.assertEqual({code for _, code in ends}, {0}, ends)
        command = [self.tandem, "train", "--env", "CartPole-v1", *COMMON.split(), "--run-dir", "alone"]
        command += ["--devices", "cpu:4"]
        subprocess.run(command, cwd=self.folder, check=True, env=hosts.environment(), timeout=LIMIT_S)
        self.assertEqual(self.state("runs/pole"), self.state("alone"))

    def state(self, run: str) -> str:
        return json.loads((self.folder / run / "summary.json").read_text())["state_sha256"]

    def test_mpirun(self):
        script = shown("mpirun")
        without = re.sub(r"-x TANDEM_RUN_SECRET_FILE|TANDEM_RUN_SECRET_FILE=\S+", "", script)
        unknown = self.start(0, without)
        said, _ = unknown.communicate(timeout=LIMIT_S)
        self.assertEqual(unknown.returncode, 2, said)
        self.assertIn("need a run secret", said)
        self.expect_the_bits_of_one_process([self.start(0, script)])

    def test_torchrun(self):
        script = shown("torchrun")
        other = script.replace("--node-rank 0", "--node-rank 1")
        self.assertNotEqual(script, other)
        self.expect_the_bits_of_one_process([self.start(0, script), self.start(1, other)])


if __name__ == "__main__":
    tandem, python, case = sys.argv[1:]
    reason = lacking(["mpirun"] if case.endswith("mpirun") else [])
    if case.endswith("torchrun") and not os.access(python, os.X_OK):
        reason = "there is no torchrun; tools/bootstrap --parity installs it"
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    own_namespaces()
    TwoHostsTest.tandem, TwoHostsTest.python = str(Path(tandem).resolve()), str(Path(python).absolute())
    del sys.argv[1:3]
    unittest.main(verbosity=2)
