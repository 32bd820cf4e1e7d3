"""Trains examples/fashion_mnist's network by torchft's LocalSGD or DiLoCo over Gloo, as one of the ranks that RANK,
WORLD_SIZE and MASTER_ADDR name, one thread each. Rank 0 hosts torchft's lighthouse, and prints a line of JSON: its
seconds of training and the test accuracy.

python torchft_local_steps.py --data DIR --interface cable [--outer nesterov] [--fragments 2]
"""

import argparse
import contextlib
import datetime
import fcntl
import gzip
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torchft.local_sgd import DiLoCo, LocalSGD
from torchft.manager import Manager
from torchft.process_group import ProcessGroupGloo

LIGHTHOUSE_PORT, FIRST_STORE_PORT = 29510, 29520
SIOCGIFADDR = 0x8915  # netdevice(7)
PATIENCE = datetime.timedelta(minutes=10)
BATCH, LEARNING_RATE, WEIGHT_DECAY = 128, 2e-3, 1e-2


class Pixels(nn.Module):
    def forward(self, images):
        return images.float().mul_(2 / 255).sub_(0.5720)


def make_net():
    """In two parts of the order that parameters have, which DiLoCo may exchange in turn."""
    first = nn.Sequential(
        Pixels(), nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    second = nn.Sequential(nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10))
    return nn.Sequential(first, second)


def read(data, part):
    images, labels = (gzip.decompress((data / f"{part}-{kind}.gz").read_bytes())
                      for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 1, 28, 28).copy()
    return torch.from_numpy(pixels), torch.from_numpy(np.frombuffer(labels, np.uint8, offset=8).astype(np.int64))


def address_of(interface):
    with socket.socket() as any_socket:
        found = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", interface.encode()))
    return socket.inet_ntoa(found[20:24])


def make_manager(rank, size, address):
    store = dist.TCPStore(address, FIRST_STORE_PORT + rank, is_master=True, wait_for_workers=False)
    return store, Manager(
        pg=ProcessGroupGloo(timeout=PATIENCE), load_state_dict=None, state_dict=None, min_replica_size=size,
        use_async_quorum=False, timeout=PATIENCE, quorum_timeout=PATIENCE, rank=0, world_size=1, store_addr=address,
        store_port=FIRST_STORE_PORT + rank, hostname=address, replica_id=f"rank_{rank}", init_sync=False,
        lighthouse_addr=f"http://{os.environ['MASTER_ADDR']}:{LIGHTHOUSE_PORT}")


def exchange(manager, net, optimizer, options):
    if options.outer == "average":
        return LocalSGD(manager, net, optimizer, options.every)
    fragments = list(net) if options.fragments == 2 else [net]
    outer = [torch.optim.SGD(part.parameters(), lr=0.7, momentum=0.9, nesterov=True) for part in fragments]
    return DiLoCo(manager, fragments, optimizer, outer, options.every, use_bucketization=True)


def train(rank, size, manager, options):
    torch.manual_seed(options.seed)
    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    pixels, labels = read(options.data, "train")
    rows = BATCH // size
    begin = time.monotonic()
    with exchange(manager, net, optimizer, options):
        for epoch in range(options.epochs):
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(options.seed + epoch))
            mine = order[: len(order) // BATCH * BATCH].reshape(-1, size, rows)[:, rank]
            for step in mine:
                loss = nn.functional.cross_entropy(net(pixels[step]), labels[step])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    seconds = time.monotonic() - begin
    net.eval()
    pixels, labels = read(options.data, "t10k")
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in zip(pixels.split(500), labels.split(500)))
    return {"train_s": seconds, "test_accuracy": right / len(labels)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--interface", required=True, help="of the link between the hosts")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--outer", choices=("average", "nesterov"), default="average")
    parser.add_argument("--fragments", type=int, choices=(1, 2), default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ["GLOO_SOCKET_IFNAME"] = options.interface
    with contextlib.ExitStack() as stack:
        if rank == 0:
            command = [str(Path(sys.executable).parent / "torchft_lighthouse"), "--min_replicas", str(size)]
            lighthouse = subprocess.Popen([*command, "--bind", f"[::]:{LIGHTHOUSE_PORT}"], stderr=subprocess.DEVNULL)
            stack.callback(lighthouse.wait)
            stack.callback(lighthouse.send_signal, signal.SIGKILL)
        _store, manager = make_manager(rank, size, address_of(options.interface))
        result = train(rank, size, manager, options)
        if rank == 0:
            print(json.dumps(result), flush=True)
        manager.shutdown(wait=False)


if __name__ == "__main__":
    main()
