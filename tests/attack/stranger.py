#!/usr/bin/env python3
"""A stranger: knocks at the doors of somebody else's run on this host, in every way of knocks.py.

    stranger.py [--not PORT,...] [--idle 40] [--flood 400]         goes on until standard input ends
    stranger.py --doors tcp:127.0.0.1:29500,local:tandem/store/0/7 [--known FILE]   each knock once at each of these

Without --doors it looks for them: abstract sockets that are called tandem/..., and TCP ports of other users that are
not among --not. At the end it prints a line of JSON: for each door how many knocks there were of each name, how many
did not come through to it, and those that were believed: the door said something else than "refused" (none may be). It
needs no library, and runs as any user. FILE has what a member and the door have said to each other: an object of JSON,
with the digits of knocks.Known by door.
"""

import argparse
import contextlib
import encodings.idna  # noqa: F401, of every connect(); another user may not find it in root's folders
import itertools
import json
import os
import random
import select
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock, Thread

import knocks
from knocks import CHALLENGE, KNOCKS, Known

PATIENCE_S = 0.3
AT_ONCE = 12
PARTS = 20  # of a second, so that a flood is steady
GREETED_S = 5  # after which a door turns away who stands idle
LISTENING_TCP, LISTENING_UNIX = "0A", "00010000"
STREAM, PACKETS = "0001", "0005"
REFUSED = bytes(knocks.VERDICT)

Door = tuple[str, str]  # its kind, and its address and port or the socket's name


def text_of(door: Door) -> str:
    return f"{door[0]}:{door[1]}"


def address_of(digits: str) -> str:
    """Of /proc/net/tcp and tcp6, whose words of 32 bits have the byte order of the machine; loopback for "all"."""
    words = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    if not any(words):
        return "127.0.0.1"
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)


class Tables:
    """The sockets of the network namespace of a process; only root may look into one that is not its own."""

    def __init__(self, process: str = "self"):
        self._files = {}
        for name in ("unix", "tcp", "tcp6"):
            with contextlib.suppress(FileNotFoundError):
                self._files[name] = os.open(f"/proc/{process}/net/{name}", os.O_RDONLY)

    def _rows(self, name: str) -> list[list[str]]:
        if name not in self._files:
            return []
        os.lseek(self._files[name], 0, os.SEEK_SET)
        text = b"".join(iter(lambda: os.read(self._files[name], 1 << 16), b"")).decode()
        return [line.split() for line in text.splitlines()[1:]]

    def unix_doors(self) -> list[Door]:
        found = []
        for row in self._rows("unix"):
            if len(row) == 8 and row[7].startswith("@tandem/") and row[3] == LISTENING_UNIX:
                found.append(("packets" if row[4] == PACKETS else "local", row[7][1:]))
        return found

    def tcp_doors(self, others: set[int], not_of: int | None) -> list[Door]:
        """Those of other users, at ports that are not among `others`."""
        found = []
        for row in self._rows("tcp") + self._rows("tcp6"):
            address, port = row[1].split(":")
            if row[3] == LISTENING_TCP and int(row[7]) != not_of and int(port, 16) not in others:
                found.append(("tcp", f"{address_of(address)}:{int(port, 16)}"))
        return found


def tcp_address(where: str) -> tuple[str, int]:
    address, _, port = where.rpartition(":")
    return address, int(port)


def connect(door: Door) -> socket.socket:
    kind, where = door
    if kind == "tcp":
        return socket.create_connection(tcp_address(where), timeout=PATIENCE_S)
    for attempt in itertools.count():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if kind == "packets" else socket.SOCK_STREAM)
        connection.settimeout(PATIENCE_S)
        try:
            connection.connect("\0" + where)
            return connection
        except BlockingIOError:  # so many wait to be let in
            connection.close()
            if attempt == 50:
                raise
            time.sleep(0.01)


def hear(connection: socket.socket, most: int) -> bytes:
    said = b""
    with contextlib.suppress(OSError):
        while len(said) < most and (more := connection.recv(most - len(said))):
            said += more
    return said


def say(connection: socket.socket, door: Door, steps: list, ended: Event) -> None:
    with contextlib.suppress(OSError, ValueError):
        for step in steps:
            if isinstance(step, float):
                if ended.wait(step):
                    return
            elif callable(step):
                step(connection)
            else:
                connection.sendall(step[: 1 << 16] if door[0] == "packets" else step)


def knock(door: Door, name: str, known: Known, ended: Event) -> str:
    """Returns "" when the door believed nothing, and else what it said; throws OSError when nobody listens there."""
    with connect(door) as connection:
        said = hear(connection, CHALLENGE)
        words = KNOCKS[name](said, known)
        say(connection, door, words if isinstance(words, list) else [words] if words else [], ended)
        answer = hear(connection, 4096) if words and connection.fileno() >= 0 else b""
    return "" if REFUSED.startswith(answer) else answer.hex()


def with_wrong_sockets(door: Door) -> list[str]:
    """What a door answers through sockets of other kinds than its own."""
    kind, where = door
    address = tcp_address(where) if kind == "tcp" else "\0" + where
    family = socket.AF_UNIX if kind != "tcp" else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    kinds = [socket.SOCK_DGRAM] if kind == "tcp" else [socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET]
    if kind != "tcp":
        kinds.remove(socket.SOCK_SEQPACKET if kind == "packets" else socket.SOCK_STREAM)
    answers = []
    for wrong in kinds:
        with contextlib.suppress(OSError), socket.socket(family, wrong) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(address)
            connection.send(knocks.answer(b"", bytes(CHALLENGE)))
            answers.append(connection.recv(4096).hex())
    return answers


class Report:
    """What came of the knocks, by door. Threads: all."""

    def __init__(self):
        self._lock = Lock()
        self._doors = defaultdict(lambda: {"knocks": Counter(), "unreached": 0, "believed": []})

    def note(self, door: Door, name: str, answer: str | None, count: int = 1) -> None:
        with self._lock:
            its = self._doors[text_of(door)]
            its["knocks"][name] += count
            its["unreached"] += answer is None
            if answer:
                its["believed"].append([name, answer])

    def knows(self, door: Door) -> bool:
        return text_of(door) in self._doors

    def text(self) -> str:
        return json.dumps(self._doors)


class Stranger:
    def __init__(self, known: dict[str, Known], ended: Event):
        self._known = known
        self._ended = ended
        self.report = Report()
        self._hands = ThreadPoolExecutor(AT_ONCE)
        self._held = []

    def _try(self, door: Door, name: str) -> None:
        if self._ended.is_set():
            return
        answer = None
        with contextlib.suppress(OSError):
            answer = knock(door, name, self._known.get(text_of(door), Known()), self._ended)
        self.report.note(door, name, answer)

    def knock_at(self, doors: list[Door]) -> None:
        """In every way, at all of them side by side."""
        tries = [self._hands.submit(self._try, door, name) for name in KNOCKS for door in doors]
        for each in tries:
            each.result()
        for door in doors:
            for answer in with_wrong_sockets(door):
                self.report.note(door, "a wrong kind of socket", answer)
            self.report.note(door, "a wrong kind of socket", "")

    def stand_idle(self, door: Door, count: int) -> None:
        for _ in range(count):
            with contextlib.suppress(OSError):
                self._held.append(connect(door))
        self.report.note(door, "silence", "", count)

    def flood(self, door: Door, count: int) -> None:
        for _ in range(count):
            if self._ended.is_set():
                return
            with contextlib.suppress(OSError):
                connect(door).close()
            self.report.note(door, "a flood", "")

    def roam(self, find: Callable[[], list[Door]], idle: int, flood: int) -> None:
        while not self._ended.is_set():
            doors = find()
            for door in doors:
                if not self.report.knows(door):
                    self.stand_idle(door, idle)
                    print("stands there", flush=True)
            self.knock_at(doors)
            for door in doors:
                self.flood(door, flood)
            time.sleep(0.01)

    def press(self, find: Callable[[], list[Door]], idle: int, flood: int) -> None:
        """At each door: so many stand idle at all times, and so many others come and go in each second."""
        for second in itertools.count():
            begin = time.monotonic()
            doors = find()
            for turn in range(PARTS):
                for door in doors:
                    if turn == 0 and second % GREETED_S == 0:
                        self.stand_idle(door, idle)
                    self.flood(door, flood // PARTS)
                if self._ended.wait(max(0.0, begin + (turn + 1) / PARTS - time.monotonic())):
                    return
            if second % GREETED_S == GREETED_S - 1:
                self._held.clear()


def end_with_input(ended: Event) -> None:
    while not ended.is_set():
        if select.select([sys.stdin], [], [], 0.1)[0]:
            ended.set()


def become(user: int) -> None:
    if user == os.getuid():
        return
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def read_known(path: str) -> dict[str, Known]:
    words = json.loads(Path(path).read_text()) if path else {}
    return {door: Known(*map(bytes.fromhex, said)) for door, said in words.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--not", dest="others", default="", help="TCP ports of others, as in 22,80")
    parser.add_argument("--idle", type=int, default=40, help="connections to each door that say nothing (40)")
    parser.add_argument("--flood", type=int, default=400, help="connections to each door, one after the other (400)")
    parser.add_argument("--press", action="store_true", help="no knocks: --idle stand there, --flood come a second")
    parser.add_argument("--host", default="self", help="a process in whose network namespace the doors are; as root")
    parser.add_argument("--user", type=int, default=os.getuid(), help="become this one, once the tables are open")
    parser.add_argument("--doors", default="", help="only these: tcp:ADDRESS:PORT, local:NAME, packets:NAME")
    parser.add_argument("--known", default="", help="a file: what members and doors said to each other")
    options = parser.parse_args()
    random.seed(7)
    ended = Event()
    stranger = Stranger(read_known(options.known), ended)
    tables = Tables(options.host)
    become(options.user)
    if options.doors:
        doors = [tuple(door.split(":", 1)) for door in options.doors.split(",")]
        for door in doors:
            stranger.stand_idle(door, options.idle)
        stranger.knock_at(doors)
        for door in doors:
            stranger.flood(door, options.flood)
    else:
        others = {int(port) for port in options.others.split(",") if port}

        def find() -> list[Door]:
            return (tables.unix_doors() if options.host == "self" else []) + tables.tcp_doors(others, options.user)

        Thread(target=end_with_input, args=[ended], daemon=True).start()
        (stranger.press if options.press else stranger.roam)(find, options.idle, options.flood)
    print(stranger.report.text())


if __name__ == "__main__":
    main()
