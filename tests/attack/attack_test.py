#!/usr/bin/env python3
"""Runs of root's that another user attacks: they end in the bits of undisturbed ones, and nobody is let in.

    attack_test.py TANDEM FASHION_MNIST [AttackTest.test_two_hosts]

The stranger (stranger.py) is user nobody, on the run's host or on each of two hosts that are network namespaces. Exits
with 77, which counts as skipped, without root.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
import stranger  # noqa: E402
from harness.two_hosts import ADDRESSES, CABLE, two_hosts  # noqa: E402

NOBODY = 65534
LIMIT_S = 150
SKIPPED = 77
TRAINING = ["train", "--env", "CartPole-v1", "--seed", "5", "--total-steps", "40000", "--shards", "2", "--quiet"]
SECRET = "the attacked run's secret"


def listening_ports() -> str:
    return ",".join(str(port) for _, port in stranger.tcp_doors(known=set(), of=None))


def enter(host: int | None) -> list[str]:
    return [] if host is None else ["nsenter", "-t", str(host), "-n"]


class Stranger:
    """Knocks from the begin to the end of the block."""

    def __init__(self, host: int | None = None):
        program = [*enter(host), "setpriv", "--reuid", str(NOBODY), "--clear-groups"]
        program += [sys.executable, str(HERE / "stranger.py"), "--not", listening_ports() if host is None else ""]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def await_first_door(self) -> None:
        assert self._process.stdout.readline() == "stands there\n"

    def end(self) -> dict:
        said, _ = self._process.communicate("\n", timeout=60)
        return json.loads(said.splitlines()[-1])


class Rank:
    def __init__(self, command: list[str], variables: dict, host: int | None = None):
        self._process = subprocess.Popen(
            [*enter(host), *command],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str, str]:
        try:
            out, err = self._process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
            raise AssertionError(f"hung; it said {err[-2000:]}") from None
        return self._process.returncode, out, err


def variables_of(rank: int, address: str, port: int) -> dict:
    return {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": address, "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1"}


class AttackTest(unittest.TestCase):
    tandem = fashion_mnist = ""

    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self._scratch.name) / "run"
        self.addCleanup(self._scratch.cleanup)

    def state(self) -> str:
        return json.loads((self.folder / "summary.json").read_text())["state_sha256"]

    def undisturbed(self) -> str:
        command = [self.tandem, *TRAINING, "--run-dir", str(self.folder), "--devices", "cpu:2"]
        subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
        state = self.state()
        subprocess.run(["rm", "-r", str(self.folder)], check=True)
        return state

    def expect_turned_away(self, knocks: dict, said: str) -> None:
        self.assertEqual(knocks["admitted"], 0, knocks)
        self.assertGreaterEqual(len(knocks["knocks"]), 20, knocks)
        self.assertTrue(knocks["doors"])
        self.assertIn("was turned away", said)

    def test_ranks_of_a_launcher(self):
        state = self.undisturbed()
        visitor = Stranger()
        code, _, err = Rank([self.tandem, *TRAINING, "--ranks", "2", "--run-dir", str(self.folder)], {}).end()
        knocks = visitor.end()
        self.assertEqual((code, self.state()), (0, state), err)
        self.expect_turned_away(knocks, err)
        self.assertEqual([door for door in knocks["doors"] if "tcp" in door], [])

    def ranks_by_variables(self, more: list[str]) -> tuple[dict, str]:
        visitor = Stranger()
        command = [self.tandem, *TRAINING, *more, "--run-dir", str(self.folder)]
        ranks = [Rank(command, variables_of(0, "127.0.0.1", 29571))]
        visitor.await_first_door()  # it stands there before the members meet
        ranks.append(Rank(command, variables_of(1, "127.0.0.1", 29571)))
        ends = [rank.end() for rank in ranks]
        knocks = visitor.end()
        self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
        return knocks, "".join(err for _, _, err in ends)

    def test_ranks_by_variables(self):
        state = self.undisturbed()
        knocks, said = self.ranks_by_variables([])
        self.assertEqual(self.state(), state)
        self.expect_turned_away(knocks, said)
        self.assertEqual([door for door in knocks["doors"] if "tcp" in door], [])

    def test_ranks_over_tcp(self):
        state = self.undisturbed()
        knocks, said = self.ranks_by_variables(["--backend", "tcp"])
        self.assertEqual(self.state(), state)
        self.expect_turned_away(knocks, said)

    def test_a_stranger_as_rank_1(self):
        state = self.undisturbed()
        command = [self.tandem, *TRAINING, "--run-dir", str(self.folder)]
        first = Rank(command, variables_of(0, "127.0.0.1", 29572))
        false = Rank(
            ["setpriv", "--reuid", str(NOBODY), "--clear-groups", "timeout", "5", *command],
            variables_of(1, "127.0.0.1", 29572),
        )
        self.assertNotEqual(false.end()[0], 0)
        true = Rank(command, variables_of(1, "127.0.0.1", 29572))
        ends = [first.end(), true.end()]
        self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
        self.assertEqual(self.state(), state)

    def test_shared_variables(self):
        common = ["--shards", "2", "--epochs", "1", "--seed", "3", "--strategy", "sync_replicas"]
        with tempfile.TemporaryDirectory() as data:
            import slow_link

            slow_link.first_images(Path("/usr/share/datasets/fashion-mnist"), 4096, Path(data))
            command = [self.fashion_mnist, "--data", data, *common]
            states = []
            for attacked in (False, True):
                visitor = Stranger() if attacked else None
                ranks = [Rank(command, variables_of(rank, "127.0.0.1", 29573)) for rank in range(2)]
                ends = [rank.end() for rank in ranks]
                self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
                states.append(json.loads(ends[0][1])["state_sha256"])
                if visitor:
                    self.expect_turned_away(visitor.end(), ends[0][2] + ends[1][2])
            self.assertEqual(*states)

    def test_two_hosts(self):
        state = self.undisturbed()
        with two_hosts(1000) as hosts:
            command = [self.tandem, *TRAINING, "--network", CABLE, "--run-dir", str(self.folder)]
            strangers = [Stranger(host) for host in hosts]
            secret = {"TANDEM_RUN_SECRET": SECRET}
            first = Rank(command, variables_of(0, ADDRESSES[0], 29574) | secret, hosts[0])
            strangers[0].await_first_door()
            without = Rank(command, variables_of(1, ADDRESSES[0], 29574), hosts[1]).end()
            self.assertEqual(without[0], 2)
            self.assertIn("need a run secret", without[2])
            wrong = {"TANDEM_RUN_SECRET": SECRET.replace("'", "`")}
            other = Rank(command, variables_of(1, ADDRESSES[0], 29574) | wrong, hosts[1]).end()
            self.assertEqual(other[0], 2, other)
            self.assertIn("refused this process, which has another secret", other[2])
            second = Rank(command, variables_of(1, ADDRESSES[0], 29574) | secret, hosts[1])
            ends = [first.end(), second.end()]
            knocks = [each.end() for each in strangers]
        self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
        self.assertEqual(self.state(), state)
        self.expect_turned_away(knocks[0], ends[0][2])
        self.assertEqual(knocks[1]["admitted"], 0)


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit(SKIPPED)
    AttackTest.tandem, AttackTest.fashion_mnist = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
