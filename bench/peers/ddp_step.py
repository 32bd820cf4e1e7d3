"""Times training steps with torch's DistributedDataParallel over Gloo, and without it, on the networks of
bench/sync/step_bench.cc. Prints a line of JSON a case.

python ddp_step.py [--smoke]
"""

import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

RANKS, ROWS, INPUTS, OUTPUTS, REPEATS, WARM_UP = 2, 8, 64, 4, 3, 10
SHAPES = [("1.1M", 512, 4, 100), ("10.6M", 1024, 10, 30), ("25.3M", 2048, 6, 20)]
SMOKE = [("0.1M", 288, 1, 3)]


def make_net(width, hidden):
    layers = [nn.Linear(INPUTS, width), nn.Tanh()]
    for _ in range(hidden):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, OUTPUTS))


def time_steps(net, x, y, steps):
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    seconds = []
    for step in range(-WARM_UP, steps):
        start = time.perf_counter()
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 0:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def work(rank, port, shapes):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    for name, width, hidden, steps in shapes:
        torch.manual_seed(rank)
        x, y = torch.randn(ROWS, INPUTS), torch.randn(ROWS, OUTPUTS)
        own, together = make_net(width, hidden), nn.parallel.DistributedDataParallel(make_net(width, hidden))
        alone, shared = [], []
        for _ in range(REPEATS):
            alone.append(time_steps(own, x, y, steps))
            dist.barrier()
            shared.append(time_steps(together, x, y, steps))
        if rank == 0:
            step = statistics.median(shared)
            for case, seconds in (("added", step - statistics.median(alone)), ("a step", step)):
                line = {"case": f"{name} parameters, {case}", "contender": "torch DDP", "value": 1e3 * seconds,
                        "unit": "ms", "samples": REPEATS}
                print(json.dumps(line), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    mp.spawn(work, args=(free_port, SMOKE if "--smoke" in sys.argv else SHAPES), nprocs=RANKS)
