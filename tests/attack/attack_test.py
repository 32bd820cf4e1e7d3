#!/usr/bin/env python3
"""Runs of root's that another user attacks: they end in the bits of undisturbed ones, and nobody is let in.

    attack_test.py TANDEM FASHION_MNIST DOORS [AttackTest.test_two_hosts]

The stranger (stranger.py) is user nobody, on the run's host or on each of two hosts that are network namespaces. Exits
with 77, which counts as skipped, without root.
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
import knocks  # noqa: E402
import stranger  # noqa: E402
from harness.two_hosts import ADDRESSES, CABLE, two_hosts  # noqa: E402

NOBODY = 65534
LIMIT_S = 150
SKIPPED = 77
TRAINING = ["train", "--env", "CartPole-v1", "--seed", "5", "--total-steps", "40000", "--shards", "2", "--quiet"]
SECRET = "the attacked run's secret"
LEAST_ATTACKS, LEAST_FORGED = 60, 30  # of all kinds, and at each door of those that look like a member's
DOORS = ("store", "local-store", "meeting", "server", "local-server", "mesh", "local-mesh")


def listening_ports() -> str:
    return ",".join(where.rpartition(":")[2] for _, where in stranger.Tables().tcp_doors(set(), not_of=None))


def enter(host: int | None) -> list[str]:
    return [] if host is None else ["nsenter", "-t", str(host), "-n"]


class Stranger:
    """User nobody, who knocks from the begin to the end of the block: on this host, in the namespace `host`, or from
    there at the doors of the namespace `at`."""

    def __init__(self, host: int | None = None, at: int | None = None):
        program = [*enter(host), sys.executable, str(HERE / "stranger.py"), "--user", str(NOBODY)]
        program += ["--not", listening_ports()] if host is None else []
        program += ["--host", str(at)] if at is not None else []
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def await_first_door(self) -> None:
        assert self._process.stdout.readline() == "stands there\n"

    def end(self) -> dict:
        """What came of it, by door."""
        said, _ = self._process.communicate("\n", timeout=60)
        return json.loads(said.splitlines()[-1])


def door_of(kind: str, contact: str) -> str:
    """Where a stranger finds the door of doors.cc."""
    if kind == "meeting":
        return f"packets:tandem/{contact}"
    if kind.endswith("store"):
        return f"tcp:127.0.0.1:{contact}" if kind == "store" else f"local:tandem/store/{os.geteuid()}/{contact}"
    _, port, where = contact.split()[:3]
    return f"local:{where}" if port == "local" else f"tcp:127.0.0.1:{port}"


def overhear(kind: str, contact: str) -> list[str]:
    """What a member and the door say to each other: a member that then goes again."""
    secret = contact.split()[0] if "store" not in kind else SECRET if kind == "store" else ""
    where, name = door_of(kind, contact).split(":", 1)
    with stranger.connect((where, name)) as connection:
        challenge = stranger.hear(connection, knocks.CHALLENGE)
        response = knocks.answer(secret.encode(), challenge)
        connection.sendall(response)
        verdict = stranger.hear(connection, knocks.VERDICT)
    assert struct.unpack("<Q", verdict[:8])[0] == knocks.ADMITTED, "this greeting is not that of tandem"
    return [words.hex() for words in (challenge, response, verdict)]


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
    tandem = fashion_mnist = doors = ""

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

    def expect_turned_away(self, doors: dict, said: str) -> None:
        self.assertEqual([its["believed"] for its in doors.values() if its["believed"]], [])
        tried = set().union(*(its["knocks"] for its in doors.values()))
        self.assertGreaterEqual(len(tried), LEAST_ATTACKS, doors)
        self.assertIn("was turned away", said)

    def test_each_door(self):
        """All doors at once, each with nobody but strangers before it; and then comes a member."""
        program, variables = self.doors, {"TANDEM_RUN_SECRET": SECRET}
        with contextlib.ExitStack() as ends:
            hosts, contacts = {}, {}
            for kind in DOORS:
                environment = os.environ | (variables if kind == "store" else {})
                key = f"attack/{os.getpid()}"
                hosts[kind] = subprocess.Popen([program, "host", kind, key], env=environment, text=True,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                ends.callback(hosts[kind].kill)
                contacts[kind] = hosts[kind].stdout.readline().strip()
            places = {kind: door_of(kind, contact) for kind, contact in contacts.items()}
            known = {places[kind]: overhear(kind, contacts[kind]) for kind in DOORS if kind != "meeting"}
            self.knock_once(list(places.values()), known)
            self.stay_outside([place for place in places.values() if not place.startswith("tcp")])
            for kind in DOORS:
                environment = os.environ | (variables if kind == "store" else {})
                member = subprocess.run([program, "come", kind, contacts[kind]], env=environment, timeout=60,
                                        capture_output=True, text=True)
                self.assertEqual(member.returncode, 0, (kind, member.stderr))
                out, err = hosts[kind].communicate(timeout=60)
                self.assertEqual((hosts[kind].returncode, out.strip()), (0, "what the member brought"), (kind, err))
                self.assertTrue(kind == "meeting" or "was turned away" in err, (kind, err))

    def knock_once(self, places: list[str], known: dict) -> None:
        """As another user of this host, who has overheard a member at each door."""
        file = Path(self._scratch.name) / "known"
        file.write_text(json.dumps(known))
        os.chmod(self._scratch.name, 0o755)
        command = ["setpriv", "--reuid", str(NOBODY), "--clear-groups", sys.executable, str(HERE / "stranger.py")]
        command += ["--doors", ",".join(places), "--known", str(file)]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S).stdout)
        forged = set(knocks.KNOCKS) - set(knocks.HALF_OPEN) - set(knocks.OTHER_LANGUAGES) - set(knocks.CUT)
        self.assertGreaterEqual(len(forged), LEAST_FORGED)
        self.assertGreaterEqual(len(knocks.KNOCKS), LEAST_ATTACKS)
        for place in places:
            self.assertEqual(told[place]["believed"], [], place)
            self.assertEqual(told[place]["unreached"], 0, (place, told[place]))
            self.assertEqual(set(knocks.KNOCKS) - set(told[place]["knocks"]), set(), place)

    def stay_outside(self, places: list[str]) -> None:
        """As the same user, in another network namespace: these doors are not even found there."""
        command = ["unshare", "--net", sys.executable, str(HERE / "stranger.py"), "--doors", ",".join(places)]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S).stdout)
        for place in places:
            self.assertEqual(told[place]["believed"], [], place)
            self.assertEqual(told[place]["unreached"], len(knocks.KNOCKS), place)

    def test_ranks_of_a_launcher(self):
        state = self.undisturbed()
        visitor = Stranger()
        code, _, err = Rank([self.tandem, *TRAINING, "--ranks", "2", "--run-dir", str(self.folder)], {}).end()
        doors = visitor.end()
        self.assertEqual((code, self.state()), (0, state), err)
        self.expect_turned_away(doors, err)
        self.assertEqual([door for door in doors if door.startswith("tcp")], [])

    def ranks_by_variables(self, more: list[str], secret: str = "") -> tuple[dict, str]:
        visitor = Stranger()
        command = [self.tandem, *TRAINING, *more, "--run-dir", str(self.folder)]
        variables = [variables_of(rank, "127.0.0.1", 29571) | {"TANDEM_RUN_SECRET": secret} for rank in range(2)]
        ranks = [Rank(command, variables[0])]
        visitor.await_first_door()  # it stands there before the members meet
        if secret:
            self.join_falsely(command, variables[1])
        ranks.append(Rank(command, variables[1]))
        ends = [rank.end() for rank in ranks]
        doors = visitor.end()
        self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
        return doors, "".join(err for _, _, err in ends)

    def join_falsely(self, command: list[str], variables: dict) -> None:
        """As rank 1: another user, who has the secret; without it, and with another one; from another namespace."""
        another_user = ["setpriv", "--reuid", str(NOBODY), "--clear-groups"]
        false = [Rank([*where, "timeout", "4", *command], variables) for where in (another_user, ["unshare", "--net"])]
        for secret in ("", SECRET[::-1]):
            code, _, err = Rank(command, variables | {"TANDEM_RUN_SECRET": secret}).end()
            self.assertEqual(code, 2, err)
            self.assertIn("refused this process, which has another secret", err)
            self.assertIn("TANDEM_RUN_SECRET", err)
        for rank in false:
            self.assertNotEqual(rank.end()[0], 0)

    def test_ranks_by_variables(self):
        state = self.undisturbed()
        doors, said = self.ranks_by_variables([], SECRET)
        self.assertEqual(self.state(), state)
        self.expect_turned_away(doors, said)
        self.assertEqual([door for door in doors if door.startswith("tcp")], [])

    def test_ranks_over_tcp(self):
        state = self.undisturbed()
        doors, said = self.ranks_by_variables(["--backend", "tcp"])
        self.assertEqual(self.state(), state)
        self.expect_turned_away(doors, said)
        self.assertEqual([door for door in doors if door.startswith("tcp")], [])

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
                    doors = visitor.end()
                    self.expect_turned_away(doors, ends[0][2] + ends[1][2])
                    self.assertEqual([door for door in doors if door.startswith("tcp")], [])
            self.assertEqual(*states)

    def test_two_hosts(self):
        state = self.undisturbed()
        with two_hosts(1000) as hosts:
            command = [self.tandem, *TRAINING, "--network", CABLE, "--run-dir", str(self.folder)]
            strangers = [Stranger(hosts[0]), Stranger(hosts[1], at=hosts[0])]
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
            doors = [each.end() for each in strangers]
        self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
        self.assertEqual(self.state(), state)
        self.expect_turned_away(doors[0], ends[0][2])
        self.expect_turned_away(doors[1], ends[0][2])


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit(SKIPPED)
    AttackTest.tandem, AttackTest.fashion_mnist, AttackTest.doors = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main(verbosity=2)
