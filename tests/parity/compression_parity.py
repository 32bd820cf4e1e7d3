#!/usr/bin/env python3
"""Trains a model with the communication hooks of torch's DistributedDataParallel and with Tandem's compressions of the
same names, and compares the parameters.

usage: compression_parity.py PATH/TO/tandem PATH/TO/compression_rank

Both start from the same weights, see the same batches and, for PowerSGD, begin with the same matrices, on 2 and on 4
ranks, for 20 steps. Exits with 1 and names hook, ranks and parameter when any differs by more than the tolerance.

Tolerances. Both sides round each rank's gradient to the short type once. Torch rounds each partial sum and its quotient
as well (2 log2(ranks) roundings at most), Tandem the sum once; so the means of a step differ by no more than
(2 log2(ranks) + 2) units in the last place of the largest gradient, and plain SGD adds up lr times that over the steps.
That bound is for the worst case; besides, Tandem's parameters must not be further from those of the same training
without a hook than twice what torch's hook makes of it. PowerSGD is float32 on both sides, multiplied in another order:
its error grows through QR, about tenfold over the unhooked 1e-6.
"""
import math
import sys

import torch
from ranks import faults_over_ranks
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

STEPS, ROWS, RATE, START, RANK = 20, 6, 0.05, 2, 2
UNITS = {"fp16": 2.0**-11, "bf16": 2.0**-8}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x))))).squeeze(1)


def prepare(folder, ranks):
    torch.manual_seed(ranks)
    save_file(Mlp().state_dict(), folder / "weights.safetensors")
    shape = (STEPS, ranks, ROWS)
    save_file({"x": torch.randn(*shape, 8), "y": torch.randn(*shape)}, folder / "data.safetensors")
    save_file({"q.a.weight": torch.randn(8, RANK), "q.b.weight": torch.randn(32, RANK)}, folder / "q.safetensors")


def power_sgd_from(q):
    """Torch's hook, beginning with these matrices, which it would draw itself: by the shape of their parameters."""
    start = {(32, 8): q["q.a.weight"], (32, 32): q["q.b.weight"]}

    def hook(state, bucket):
        if state.iter >= START and bucket.index() not in state.q_memory_dict:
            shapes = [tuple(g.shape) for g in bucket.gradients() if tuple(g.shape) in start]
            state.q_memory_dict[bucket.index()] = torch.cat([start[shape].flatten() for shape in shapes])
            state.p_memory_dict[bucket.index()] = torch.empty(sum(shape[0] * RANK for shape in shapes))
        return powerSGD_hook(state, bucket)

    return hook


def train_with_ddp(name, hook, data, rank, folder):
    net = Mlp()
    net.load_state_dict(load_file(folder / "weights.safetensors"))
    ddp = DistributedDataParallel(net)
    if hook:
        ddp.register_comm_hook(*hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=RATE)
    largest = torch.zeros(1)
    for step in range(STEPS):
        optimizer.zero_grad()
        (ddp(data["x"][step, rank]) - data["y"][step, rank]).square().mean().backward()
        largest = torch.stack([largest.max(), *[p.grad.abs().max() for p in net.parameters()]]).max().reshape(1)
        optimizer.step()
    if rank == 0:
        save_file({**net.state_dict(), "largest": largest}, folder / f"{name}.ddp.safetensors")


def train_all(rank, folder):
    data = load_file(folder / "data.safetensors")
    hooks = {
        "none": None,
        "fp16": (None, fp16_compress_hook),
        "bf16": (None, bf16_compress_hook),
        "power_sgd": (
            PowerSGDState(None, matrix_approximation_rank=RANK, start_powerSGD_iter=START),
            power_sgd_from(load_file(folder / "q.safetensors")),
        ),
    }
    for name, hook in hooks.items():
        train_with_ddp(name, hook, data, rank, folder)


def tolerance(name, ranks, largest):
    if name in UNITS:
        return (2 * math.log2(ranks) + 2) * UNITS[name] * largest * RATE * STEPS
    return 1e-5 if name == "power_sgd" else 1e-6


def compare(folder, ranks):
    faults = []
    plain = load_file(folder / "none.ddp.safetensors")
    for name in ("none", "fp16", "bf16", "power_sgd"):
        theirs, ours = (load_file(folder / f"{name}.{who}.safetensors") for who in ("ddp", "tandem"))
        allowed = tolerance(name, ranks, theirs.pop("largest").item())
        worst = max((ours[key].double() - theirs[key].double()).abs().max().item() for key in theirs)
        effect, their_effect = (max((of[key] - plain[key]).abs().max().item() for key in theirs)
                                for of in (ours, theirs))
        print(
            f"{ranks} ranks, {name}: largest difference {worst:.2g} of {allowed:.2g} allowed; "
            f"compression moved parameters by {effect:.2g}, torch's by {their_effect:.2g}"
        )
        if not worst <= allowed:
            faults.append(f"{ranks} ranks, {name}: differs by {worst:.3g}")
        if name != "none" and effect > 2 * their_effect:
            faults.append(f"{ranks} ranks, {name}: moved parameters by {effect:.3g}, "
                          f"torch's hook by {their_effect:.3g}")
        if name != "none" and effect < 1e-5:
            faults.append(f"{ranks} ranks, {name}: nothing was compressed")
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
