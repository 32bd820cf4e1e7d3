#!/usr/bin/env python3
"""Runs of two ranks on hosts that lack something: they train all the same, or end at once with the reason.

    lacking_host_test.py TANDEM [LackingHostTest.test_without_ipv4]

Exits with 77, which counts as skipped, without root: namespaces take it.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIMIT_S = 60
SKIPPED = 77
TRAINING = ["train", "--env", "CartPole-v1", "--total-steps", "4000", "--num-envs", "8", "--shards", "2", "--quiet"]
MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}.get(platform.machine())


def forbid_memfd_create() -> None:
    """As the seccomp profile of a container, for this process and those that it becomes and starts."""
    load, equal, give_back = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K
    refuse, allow = 0x0005_0000 | errno.EPERM, 0x7FFF_0000  # SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW
    steps = [(load, 0, 0, 0), (equal, 0, 1, MEMFD_CREATE), (give_back, 0, 0, refuse), (give_back, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, filtered = 38, 22, 2
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    if libc.prctl(seccomp, filtered, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def limit_of(what: int, value: int):
    return lambda: resource.setrlimit(what, (value, value))


class LackingHostTest(unittest.TestCase):
    tandem = ""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name) / "run"

    def start(self, *more: str, before=None, within: tuple = (), **variables: object) -> subprocess.Popen:
        command = [*within, self.tandem, *TRAINING, *more, "--run-dir", str(self.folder)]
        environment = os.environ | {name: str(value) for name, value in variables.items()}
        return subprocess.Popen(command, env=environment, preexec_fn=before, text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def end(self, started: subprocess.Popen) -> tuple[int, str]:
        try:
            _, err = started.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            started.kill()
            raise AssertionError(f"hung; it said {started.communicate()[1][-2000:]}") from None
        return started.returncode, err

    def ranks_by_variables(self, *more: str, address: str, port: int, **how) -> list[tuple[int, str]]:
        common = {"WORLD_SIZE": 2, "MASTER_ADDR": address, "MASTER_PORT": port}
        return [self.end(each) for each in
                [self.start(*more, RANK=rank, LOCAL_RANK=rank, **common, **how) for rank in range(2)]]

    def test_without_ipv4(self):
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c",
                                   "ip link set lo up && ip -4 address flush dev lo && echo ready && exec sleep 100"],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.assertEqual(holder.stdout.readline(), "ready\n")
        within = ("nsenter", "-t", str(holder.pid), "-n")
        for address, backend in (("::1", "tcp"), ("[::1]", "auto")):
            ends = self.ranks_by_variables("--backend", backend, address=address, port=29601, within=within)
            self.assertEqual([code for code, _ in ends], [0, 0], (address, ends))
            subprocess.run(["rm", "-r", str(self.folder)], check=True)

    def test_without_memfd_create(self):
        for backend in ("auto", "tcp"):
            code, err = self.end(self.start("--ranks", "2", "--backend", backend, before=forbid_memfd_create))
            self.assertEqual(code, 0, (backend, err))
            subprocess.run(["rm", "-r", str(self.folder)], check=True)

    def test_without_shared_memory(self):
        """Neither memfd_create() nor a /dev/shm that can be written: no rank waits for the one that fails."""
        hidden = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && exec "$@"', "sh")
        code, err = self.end(self.start("--ranks", "2", "--backend", "tcp", within=hidden, before=forbid_memfd_create))
        self.assertEqual(code, 3, err)
        for word in ("memfd_create", "/dev/shm", "seccomp"):
            self.assertIn(word, err)
        self.assertNotIn("is killed", err)

    def test_few_open_files(self):
        for count in (14, 40):
            for end in self.ranks_by_variables(address="127.0.0.1", port=29602,
                                               before=limit_of(resource.RLIMIT_NOFILE, count)):
                self.assertEqual(end[0], 3, end)
                self.assertIn("ulimit -n", end[1])

    def test_a_limit_of_addresses(self):
        gib = 4
        code, err = self.end(self.start("--ranks", "2", before=limit_of(resource.RLIMIT_AS, gib << 30)))
        self.assertEqual(code, 0, err)


if __name__ == "__main__":
    if os.geteuid() != 0 or MEMFD_CREATE is None:
        sys.exit(SKIPPED)
    LackingHostTest.tandem = sys.argv.pop(1)
    unittest.main(verbosity=2)
