"""The ways in which a stranger knocks at a door of somebody else's run, each with a name.

A knock is made of what the door said first (its challenge, 40 bytes at a door of net/door.h) and of what the stranger
knows besides (Known). It returns what to send: bytes, or a list of steps, each of them bytes or a pause in seconds or a
function of the connection. The knocks are tried at every door, whatever is behind it.
"""

import dataclasses
import hashlib
import hmac
import random
import socket
import struct
from collections.abc import Callable

MARK = 0x7461_6E64_656D_0003  # of the greeting, tandem/net/greeting.cc
ADMITTED = 0x7961_6365_6B6F_6B21
FRAME_MARK = 0x7A4D_0001  # of a message, tandem/net/connection.cc
CHALLENGE, RESPONSE, VERDICT = 48, 80, 40  # bytes
SET, FIND, ADD, COMPARE_SET = 1, 2, 3, 4  # requests to a store
PART = b"tandem//0/0/rendezvous/"

Step = bytes | float | Callable
Knock = Callable[[bytes, "Known"], "bytes | list[Step]"]


@dataclasses.dataclass
class Known:
    """What a stranger may have seen on the wire: one member's connection to this door. Zeros where nothing is known."""

    challenge: bytes = bytes(CHALLENGE)
    response: bytes = bytes(RESPONSE)
    verdict: bytes = bytes(VERDICT)


def key_of(secret: bytes) -> bytes:
    return hmac.digest(secret, b"tandem: a greeting", "sha256")


def code_of(secret: bytes, direction: bytes, challenge: bytes, caller: int, number: bytes) -> bytes:
    return hmac.digest(key_of(secret), direction + challenge + struct.pack("<i", caller) + number, "sha256")


def response(caller: int, code: bytes, number: bytes | None = None, mark: int = MARK) -> bytes:
    return struct.pack("<Qii", mark, caller, 0) + (number or random.randbytes(32)) + code


def answer(secret: bytes, challenge: bytes, caller: int = 0, direction: bytes = b"tandem: a caller") -> bytes:
    """A member's response, where the secret is the run's."""
    number = random.randbytes(32)
    return response(caller, code_of(secret, direction, challenge, caller, number), number)


def frame(kind: int, body: bytes, size: int | None = None, mark: int = FRAME_MARK) -> bytes:
    return struct.pack("<QqII", len(body) if size is None else size, -1, kind, mark) + body


def request(kind: int, key: bytes, value: bytes = b"", expected: bytes = b"", amount: int = 0) -> bytes:
    return frame(kind, struct.pack("<qQQ", amount, len(key), len(expected)) + key + expected + value)


def posting(operation: int, count: int, of_type: bytes = b"Float") -> bytes:
    return struct.pack("<Iiq16sQ", operation, 0, count, of_type, 2**64 - 1)


def torch_store(kind: int, *words: bytes) -> bytes:
    text = b"".join(struct.pack("<Q", len(word)) + word for word in words)
    return b"\x00" + struct.pack("<I", 0x3C85F7CE) + bytes([kind]) + text


def reset(connection: socket.socket) -> None:
    """Ends the connection by RST, as who is gone all at once."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def half_close(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


def pass_descriptors(connection: socket.socket) -> None:
    """A first word like that of a rank of a host group, with 200 descriptors."""
    hello = struct.pack("<Qiii", 0x7461_6E64_656D_0001, 1, 2, 4711).ljust(256, b"\0")
    socket.send_fds(connection, [hello], [connection.fileno()] * 200)


def urgent(connection: socket.socket) -> None:
    connection.send(b"!", socket.MSG_OOB)


def changed(text: bytes, at: int) -> bytes:
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]


def drip(text: bytes, every_s: float, count: int) -> list[Step]:
    return [step for byte in text[:count] for step in (bytes([byte]), every_s)]


HALF_OPEN: dict[str, Knock] = {
    "nothing, and hangs up": lambda said, known: b"",
    "a reset": lambda said, known: [reset],
    "a reset behind half a response": lambda said, known: [answer(b"", said)[:40], reset],
    "half open, without a word": lambda said, known: [half_close, 0.5],
    "half open, behind half a response": lambda said, known: [answer(b"", said)[:40], half_close, 0.5],
    "a byte a second": lambda said, known: drip(answer(b"", said), 1.0, 6),
    "a byte each 20 ms": lambda said, known: drip(answer(b"", said), 0.02, RESPONSE),
    "an urgent byte": lambda said, known: [urgent, answer(b"", said)],
    "200 descriptors": lambda said, known: [pass_descriptors],
}
OTHER_LANGUAGES: dict[str, Knock] = {
    "zeros": lambda said, known: bytes(4096),
    "ones": lambda said, known: b"\xff" * 4096,
    "noise": lambda said, known: random.randbytes(4096),
    "a megabyte of noise": lambda said, known: random.randbytes(1 << 20),
    "HTTP": lambda said, known: b"GET / HTTP/1.1\r\nHost: run\r\n\r\n",
    "HTTP/2": lambda said, known: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "TLS": lambda said, known: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random.randbytes(500),
    "an alert of TLS": lambda said, known: b"\x15\x03\x03\x00\x02\x02\x28",
    "SSH": lambda said, known: b"SSH-2.0-stranger\r\n",
    "Redis": lambda said, known: b"*1\r\n$4\r\nPING\r\n",
    "PostgreSQL": lambda said, known: struct.pack(">II", 8, 80877103),
    "LibTorch's store: validate": lambda said, known: torch_store(0),
    "LibTorch's store: set": lambda said, known: torch_store(1, b"joiners", b"1073741824"),
    "LibTorch's store: compare_set": lambda said, known: torch_store(2, b"latest", b"0", b"7"),
    "LibTorch's store: get": lambda said, known: torch_store(3, b"world/0"),
    "LibTorch's store: add": lambda said, known: torch_store(4, b"joiners") + struct.pack("<q", 1 << 30),
    "numbers, as of a pair of Gloo": lambda said, known: struct.pack("<q", random.randrange(64)),
    "numbers, and noise": lambda said, known: struct.pack("<q", random.randrange(8)) + random.randbytes(256),
}
CUT = {
    f"a response cut at {length}": (lambda said, known, length=length: answer(b"", said)[:length])
    for length in (1, 7, 8, 12, 16, 47, 48, 79)
}
MARKS = {
    f"a greeting of {name}": (lambda said, known, mark=mark: response(1, bytes(32), mark=mark))
    for name, mark in (("an older version", MARK - 1), ("a newer version", MARK + 1), ("no version", 0),
                       ("the other byte order", int.from_bytes(MARK.to_bytes(8, "little"), "big")))
}
CODES: dict[str, Knock] = {
    "a forged code": lambda said, known: response(1, random.randbytes(32)),
    "a code of zeros": lambda said, known: response(1, bytes(32)),
    "a code of ones": lambda said, known: response(1, b"\xff" * 32),
    "the challenge as the code": lambda said, known: response(0, said[8:40].ljust(32, b"\0")),
    "the challenge as both": lambda said, known: response(0, said[8:40].ljust(32, b"\0"), said[8:40].ljust(32, b"\1")),
    "the challenge back": lambda said, known: said,
    "the challenge back, twice": lambda said, known: said + said,
    "a code of the empty secret": lambda said, known: answer(b"", said),
    "a code of a guessed secret": lambda said, known: answer(b"secret", said),
    "a code of the empty secret, as a door": lambda said, known: answer(b"", said, direction=b"tandem: a door__"),
    "a code without a key": lambda said, known: response(1, hashlib.sha256(said).digest()),
    "a code of another challenge": lambda said, known: answer(b"", random.randbytes(CHALLENGE)),
    "as rank -1": lambda said, known: answer(b"", said, -1),
    "as rank 2147483647": lambda said, known: answer(b"", said, 2**31 - 1),
    "as rank -2147483648": lambda said, known: answer(b"", said, -(2**31)),
    "a response and one byte": lambda said, known: answer(b"", said) + b"T",
    "two responses": lambda said, known: answer(b"", said) + answer(b"", said, 1),
}
REPLAYED: dict[str, Knock] = {
    "a member's response again": lambda said, known: known.response,
    "a member's whole part again": lambda said, known: known.response + b"T" + request(SET, b"word", b"a stranger's"),
    "a member's code with another number": lambda said, known: response(0, known.response[48:]),
    "a member's code as another rank": lambda said, known: response(1, known.response[48:], known.response[16:48]),
    "a member's response with one bit more": lambda said, known: changed(known.response, 79),
    "a member's number and the challenge's": lambda said, known: response(0, said[8:40].ljust(32, b"\0"),
                                                                          known.response[16:48]),
    "the door's code of a member": lambda said, known: response(0, known.verdict[8:], known.response[16:48]),
    "the door's old challenge": lambda said, known: known.challenge + known.response,
    "a verdict": lambda said, known: struct.pack("<Q", ADMITTED) + bytes(32),
    "the verdict of a member": lambda said, known: known.verdict,
    "taken": lambda said, known: b"T",
}
# As another version may have it, these come without a greeting, and behind one that is refused.
MESSAGES: dict[str, bytes] = {
    "left/1.0": request(SET, PART + b"left/1.0", b"gone"),
    "ended/1.0": request(SET, PART + b"ended/1.0", b"SIGKILL"),
    "no members": request(SET, PART + b"round/1/members", b""),
    "members twice": request(SET, PART + b"round/1/members", b"0.0 0.0 1.0 1.0"),
    "members that are none": request(SET, PART + b"round/1/members", b"nobody"),
    "joiners + 2^30": request(ADD, PART + b"joiners", amount=1 << 30),
    "joiners of another type": request(SET, PART + b"joiners", b"many"),
    "the run is over": request(SET, PART + b"over", b"1"),
    "a deadline of ages": request(SET, PART + b"deadline", b"99999999999999999999"),
    "the first failure": request(COMPARE_SET, b"tandem//0/0/words/first_failure", b"rank 0: a stranger's"),
    "the token of a host": request(FIND, b"tandem//0/0/world/0"),
    "a key of 2^63 bytes": frame(SET, struct.pack("<qQQ", 0, 1 << 63, 1 << 63) + b"key"),
    "a frame of 2^62 bytes": frame(SET, b"", size=1 << 62),
    "a frame of 41 MB": frame(SET, b"", size=41 << 20),
    "a frame without a mark": frame(SET, b"left/1.0", mark=0),
    "a request of no kind": request(77, b"left/1.0", b"gone"),
    "a farewell": frame(0xFFFFFFFE, struct.pack("<ii", 1, 0) + b"rank 0 died"),
    "a thousand requests": request(SET, b"word", b"a stranger's") * 1000,
    "gradients": frame(1, bytes(4096)),
    "an announcement": struct.pack("<Q", 160) + struct.pack("<IIQ", 0, 0, 0).ljust(64, b"\0") + posting(0, 8),
    "an announcement of no operation": struct.pack("<Q", 160) + bytes(64) + posting(99, -1, b"x" * 16),
    "a payload of 2^63 bytes": struct.pack("<Q", 1 << 63) + bytes(64),
}


def without_greeting(words: bytes) -> Knock:
    return lambda said, known: words


def behind_a_response(words: bytes) -> Knock:
    return lambda said, known: answer(b"", said) + b"T" + words


KNOCKS: dict[str, Knock] = HALF_OPEN | OTHER_LANGUAGES | CUT | MARKS | CODES | REPLAYED
KNOCKS |= {f"{name}, without a greeting": without_greeting(words) for name, words in MESSAGES.items()}
KNOCKS |= {f"{name}, behind a response": behind_a_response(words) for name, words in MESSAGES.items()}
FORGED = len(MARKS) + len(CODES) + len(REPLAYED) + 2 * len(MESSAGES)  # the rest says nothing of a run
