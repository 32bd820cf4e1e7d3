"""Times training steps with torch's DistributedDataParallel over Gloo, and without it, on the networks of
bench/sync/step_bench.cc. Prints a line of JSON a case.

python ddp_step.py [--smoke]
"""

import json
import statistics
import sys
import time

import gloo_ranks
import torch
import torch.distributed as dist
from torch import nn

ROWS, INPUTS, OUTPUTS, REPEATS, WARM_UP = 8, 64, 4, 3, 10
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


def work(rank, shapes):
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


if __name__ == "__main__":
    gloo_ranks.run(work, SMOKE if "--smoke" in sys.argv else SHAPES)
