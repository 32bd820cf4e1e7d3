"""Processes of torch.distributed over Gloo on loopback, one thread each: what the peers' scripts of sums and steps
share."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = 2


def run(work, *arguments, ranks=RANKS):
    """Calls work(rank, *arguments) in each of `ranks` processes, where the default process group is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    mp.spawn(_enter, args=(free_port, ranks, work, arguments), nprocs=ranks)


def _enter(rank, port, ranks, work, arguments):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    work(rank, *arguments)
    dist.barrier()
    dist.destroy_process_group()
