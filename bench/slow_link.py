#!/usr/bin/env python3
"""How much faster is an epoch of Fashion-MNIST by local_steps than by replicated, when two hosts have a slow link?

    sudo bench/slow_link.py [--build build/release] [--rate-mbit 10] [--images 60000] [--epochs 1]
                             [--smoke] [--no-peers]

The hosts are network namespaces of this machine with a cable that a token bucket (tc tbf) limits; each has two of the
four ranks of examples/fashion_mnist. Every contender trains as many epochs, one after the other. Prints their seconds,
with the agreement at each end, bytes that a host sent over the cable for the whole run, headers too, and the test
accuracy. Beside it torchft's LocalSGD and DiLoCo train the same network with torch's Gloo; its bytes are of the whole
run, too. Needs root, ip, tc, unshare and nsenter.
"""

from __future__ import annotations

import argparse
import gzip
import struct
import tempfile
from pathlib import Path

from harness.peers import PeerEnvironments, Peers
from harness.two_hosts import CABLE, bytes_sent, run_ranks, two_hosts

ROOT = Path(__file__).resolve().parent.parent
RANKS = 4
LOCAL = ["--strategy", "local_steps", "--every", "50"]
CONTENDERS = {
    "replicated": ["--strategy", "replicated"],
    "local_steps": LOCAL,
    "local_steps, int8": [*LOCAL, "--wire", "int8"],
    "local_steps, nesterov, overlap": [*LOCAL, "--outer", "nesterov", "--fragments", "2", "--overlap", "20"],
}
TORCHFT = {
    "torchft, LocalSGD": [],
    "torchft, DiLoCo, two fragments": ["--outer", "nesterov", "--fragments", "2"],
}


def first_images(data: Path, count: int, folder: Path) -> Path:
    """The data set with `count` of its training images."""
    for source in data.glob("*.gz"):
        content = gzip.decompress(source.read_bytes())
        if source.name.startswith("train"):
            head, each = (16, 28 * 28) if "images" in source.name else (8, 1)
            content = content[:4] + struct.pack(">I", count) + content[8:head] + content[head : head + count * each]
        (folder / source.name).write_bytes(gzip.compress(content, 1))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--rate-mbit", type=int, default=10)
    parser.add_argument("--images", type=int, default=60000, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="256 images")
    parser.add_argument("--no-peers", action="store_true", help="leave torchft out")
    options = parser.parse_args()
    program = options.build.resolve() / "bin" / "fashion_mnist"
    with tempfile.TemporaryDirectory() as scratch:
        data = first_images(options.data, 256 if options.smoke else options.images, Path(scratch))
        common = ["--data", str(data), "--epochs", str(options.epochs), "--seed", str(options.seed)]
        runs = {name: [program, "--shards", RANKS, *own, *common] for name, own in CONTENDERS.items()}
        if not options.no_peers:
            python = PeerEnvironments(ROOT, Peers.ALL).python("torchft", "torchft-requirements.txt")
            peer = [python, ROOT / "bench/peers/torchft_local_steps.py", "--interface", CABLE]
            runs |= {name: [*peer, *own, *common] for name, own in TORCHFT.items()}
        seconds, first_sent = 0.0, 0
        for name, (command, *arguments) in runs.items():
            with two_hosts(options.rate_mbit) as hosts:
                (result,) = run_ranks(hosts, RANKS, command, [str(word) for word in arguments])
                sent = bytes_sent(hosts[0])
            seconds = seconds or result["train_s"]
            took, first_sent = result["train_s"], first_sent or sent
            print(
                f"{name}: {took:.1f} s, {seconds / took:.1f} times as fast as replicated; {sent / 1e6:.2f} MB sent by "
                f"a host, 1/{first_sent / sent:.1f}; test accuracy {result['test_accuracy']:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
