#!/usr/bin/env python3
"""A stranger: looks for the doors of somebody else's run on this host, and knocks at each in every way it knows.

    stranger.py [--not PORT,...] [--idle 40] [--flood 400]

Doors are abstract sockets that are called tandem/..., and TCP ports of other users that are not among --not. Goes on
until standard input ends; then prints a line of JSON: how many knocks there were of each kind, how many of them were
answered with "admitted" (none may be), and the doors. It needs no library, and runs as any user.
"""

import argparse
import contextlib
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections import Counter

MARK = 0x7461_6E64_656D_0002  # of the greeting, tandem/net/greeting.cc
ADMITTED = 0x7961_6365_6B6F_6B21
CHALLENGE, VERDICT = 40, 40  # bytes
PATIENCE_S = 0.3
LISTENING_TCP, LISTENING_UNIX = "0A", "00010000"
STREAM, PACKETS = "0001", "0005"


def unix_doors() -> list[tuple]:
    found = []
    with open("/proc/net/unix") as table:
        for line in table:
            fields = line.split()
            if len(fields) == 8 and fields[7].startswith("@tandem/") and fields[3] == LISTENING_UNIX:
                found.append(("packets" if fields[4] == PACKETS else "local", "\0" + fields[7][1:]))
    return found


def tcp_doors(known: set[int], of: int | None) -> list[tuple]:
    """Those of other users than `of`."""
    found = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}") as table:
            for fields in (line.split() for line in list(table)[1:]):
                port = int(fields[1].split(":")[1], 16)
                if fields[3] == LISTENING_TCP and int(fields[7]) != of and port not in known:
                    found.append(("tcp", port))
    return found


def connect(door: tuple) -> socket.socket:
    kind, where = door
    if kind == "tcp":
        try:
            return socket.create_connection(("127.0.0.1", where), timeout=PATIENCE_S)
        except OSError:
            return socket.create_connection(("::1", where), timeout=PATIENCE_S)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if kind == "packets" else socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    connection.connect(where)
    return connection


def response(caller: int, code: bytes) -> bytes:
    return struct.pack("<Qii", MARK, caller, 0) + random.randbytes(32) + code


def store_request(kind: int, key: bytes, value: bytes) -> bytes:
    body = struct.pack("<qQQ", 0, len(key), 0) + key + value
    return struct.pack("<QqII", len(body), -1, kind, 0x7A4D0001) + body


# What is sent, given what the door said first.
KNOCKS = {
    "nothing, and hangs up": lambda said: b"",
    "zeros": lambda said: bytes(4096),
    "noise": lambda said: random.randbytes(4096),
    "a megabyte of noise": lambda said: random.randbytes(1 << 20),
    "HTTP": lambda said: b"GET / HTTP/1.1\r\nHost: run\r\n\r\n",
    "TLS": lambda said: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random.randbytes(500),
    "SSH": lambda said: b"SSH-2.0-stranger\r\n",
    "LibTorch's store: set": lambda said: b"\x00" + struct.pack("<I", 0x3C85F7CE) + b"\x01" + struct.pack("<Q", 7)
    + b"joiners" + struct.pack("<Q", 10) + b"1073741824",
    "a forged code": lambda said: response(1, random.randbytes(32)),
    "a code of zeros": lambda said: response(1, bytes(32)),
    "the challenge itself": lambda said: response(0, said[8:40]) if len(said) >= CHALLENGE else said,
    "the challenge back": lambda said: said,
    "half a response": lambda said: response(1, bytes(32))[:40],
    "a response of rank 2147483647": lambda said: response(2**31 - 1, random.randbytes(32)),
    "a response, and at once a request": lambda said: response(1, bytes(32)) + b"T"
    + store_request(1, b"tandem//0/rendezvous/left/1.0", b"gone"),
    "a request without a greeting": lambda said: store_request(1, b"tandem//0/rendezvous/ended/1.0", b"SIGKILL"),
    "a frame of 2^62 bytes": lambda said: struct.pack("<QqII", 1 << 62, -1, 1, 0x7A4D0001),
    "a verdict": lambda said: struct.pack("<Q", ADMITTED) + bytes(32),
    "numbers, as of a pair of Gloo": lambda said: struct.pack("<q", random.randrange(64)),
    "numbers, and noise": lambda said: struct.pack("<q", random.randrange(8)) + random.randbytes(256),
}


def knock(door: tuple, make) -> bool:
    """Returns whether it was let in."""
    with contextlib.suppress(OSError), connect(door) as connection:
        said = b""
        with contextlib.suppress(OSError):
            while len(said) < CHALLENGE and (more := connection.recv(CHALLENGE - len(said))):
                said += more
        words = make(said)
        if words:
            with contextlib.suppress(OSError):
                connection.sendall(words[: 1 << 16] if door[0] == "packets" else words)
            answer = b""
            with contextlib.suppress(OSError):
                while len(answer) < VERDICT and (more := connection.recv(VERDICT - len(answer))):
                    answer += more
            return answer[:8] == struct.pack("<Q", ADMITTED)
    return False


def has_ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def stand_idle(door: tuple, count: int) -> list[socket.socket]:
    held = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            held.append(connect(door))
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--not", dest="known", default="", help="TCP ports of others, as in 22,80")
    parser.add_argument("--idle", type=int, default=40, help="connections to each door that say nothing (40)")
    parser.add_argument("--flood", type=int, default=400, help="connections to each door, one after the other (400)")
    options = parser.parse_args()
    known = {int(port) for port in options.known.split(",") if port}
    random.seed(7)
    knocks, doors, held, admitted = Counter(), set(), [], 0
    while not has_ended():
        for door in unix_doors() + tcp_doors(known, os.getuid()):
            if door not in doors:
                doors.add(door)
                held += stand_idle(door, options.idle)
                knocks["silence"] += options.idle
                print("stands there", flush=True)
            for name, make in KNOCKS.items():
                admitted += knock(door, make)
                knocks[name] += 1
                if has_ended():
                    break
            for _ in range(0 if has_ended() else options.flood):
                with contextlib.suppress(OSError):
                    connect(door).close()
                knocks["a flood"] += 1
        time.sleep(0.01)
    print(json.dumps({"knocks": knocks, "admitted": admitted, "doors": sorted(str(door) for door in doors)}))


if __name__ == "__main__":
    main()
