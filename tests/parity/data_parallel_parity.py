#!/usr/bin/env python3
"""Trains models with torch's DistributedDataParallel and with Tandem's DataParallel, and compares the parameters.

usage: data_parallel_parity.py PATH/TO/tandem PATH/TO/data_parallel_rank

Both start from the same weights and see the same batches, on 2 and on 4 ranks, for 20 steps. Exits with 1 and names
model, ranks and parameter when any differs by more than 1e-6.
"""
import sys

import torch
from ranks import faults_over_ranks
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, ROWS, TOLERANCE = 20, 6, 1e-6


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x, step, rank):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x))))).squeeze(1)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8 * 4 * 4, 1)

    def forward(self, x, step, rank):
        return self.last(torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).flatten(1)).squeeze(1)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(50, 8, sparse=True), nn.Linear(8, 1)

    def forward(self, x, step, rank):
        return self.last(self.table(x.long()).mean(1)).squeeze(1)


class Partial(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.never = nn.Linear(8, 16), nn.Linear(16, 1)
        self.sometimes, self.always = nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, x, step, rank):
        hidden = torch.tanh(self.a(x))
        out = self.always(hidden).squeeze(1)
        return out + self.sometimes(hidden).squeeze(1) if rank == 0 and step % 2 == 0 else out


def sgd(lr, momentum=0.0):
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=momentum)


# name: (module, inputs of [steps, ranks, rows], optimizer)
MODELS = {
    "mlp_adam": (Mlp, lambda shape: torch.randn(*shape, 8), lambda p: torch.optim.Adam(p, lr=1e-3)),
    "cnn_momentum": (Cnn, lambda shape: torch.randn(*shape, 1, 8, 8), sgd(0.002, 0.9)),
    "words": (Words, lambda shape: torch.randint(0, 50, (*shape, 3)), sgd(0.05)),
    "partial": (Partial, lambda shape: torch.randn(*shape, 8), sgd(0.05)),
}


def prepare(folder, ranks):
    torch.manual_seed(ranks)
    for name, (module, inputs, _) in MODELS.items():
        save_file(module().state_dict(), folder / f"{name}.weights.safetensors")
        shape = (STEPS, ranks, ROWS)
        save_file({"x": inputs(shape), "y": torch.randn(*shape)}, folder / f"{name}.data.safetensors")


def train_with_ddp(name, rank, folder):
    module, _, make_optimizer = MODELS[name]
    net = module()
    net.load_state_dict(load_file(folder / f"{name}.weights.safetensors"))
    ddp = DistributedDataParallel(net, find_unused_parameters=name == "partial")
    optimizer = make_optimizer(ddp.parameters())
    data = load_file(folder / f"{name}.data.safetensors")
    for step in range(STEPS):
        optimizer.zero_grad()
        (ddp(data["x"][step, rank], step, rank) - data["y"][step, rank]).square().mean().backward()
        optimizer.step()
    if rank == 0:
        save_file(net.state_dict(), folder / f"{name}.ddp.safetensors")


def train_all(rank, folder):
    for name in MODELS:
        train_with_ddp(name, rank, folder)


def compare(folder, ranks):
    faults = []
    for name in MODELS:
        start = load_file(folder / f"{name}.weights.safetensors")
        theirs, ours = (load_file(folder / f"{name}.{who}.safetensors") for who in ("ddp", "tandem"))
        parameters = [key for key in theirs if "running" not in key and "num_batches" not in key]
        worst, moved = 0.0, 0.0
        for key in parameters:
            difference = (ours[key].double() - theirs[key].double()).abs().max().item()
            if not difference <= TOLERANCE:
                faults.append(f"{ranks} ranks, {name}, {key}: differs by {difference:.3g}")
            worst = max(worst, difference)
            moved = max(moved, (theirs[key] - start[key]).abs().max().item())
        if moved < 1e-3:
            faults.append(f"{ranks} ranks, {name}: nothing was trained")
        print(f"{ranks} ranks, {name}: largest difference {worst:.2g}, parameters moved by up to {moved:.2g}")
    return faults


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    faults = faults_over_ranks(sys.argv[1], sys.argv[2], prepare, train_all, compare)
    for fault in faults:
        print("FAULT:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
