#!/usr/bin/env python3
"""Trains in Tandem, goes on in Python from what it saved, and then the other way round.

usage: state_dict_parity.py PATH/TO/state_dict_files

For each optimizer: Tandem makes three steps, saves the module (torch file and safetensors) and both states (torch
file), and makes two more; torch loads them with weights_only=True, makes the same two and saves; Tandem loads that and
both make two more. Exits with 1 and names what differs. Tolerance: both compute in float32 with differently fused
updates; seven steps stay within 1e-6.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from torch import nn

TOLERANCE = 1e-6
OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p),
    "adamw": lambda p: torch.optim.AdamW(p),
    "sgd": lambda p: torch.optim.SGD(p, lr=1, momentum=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p),
}


def make_net():
    # The norm comes first: a bias before it has a gradient of nothing but rounding, which Adam would make large.
    return nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def steps(net, optimizer, data, first):
    for step in range(first, first + 2):
        optimizer.zero_grad()
        (net(data["x"][step]).squeeze(1) - data["y"][step]).square().mean().backward()
        optimizer.step()


def difference(net, file):
    theirs = load_file(file)
    return max((value.double() - theirs[key].double()).abs().max().item() for key, value in net.state_dict().items())


def check(program, name, folder, data):
    faults = []

    def expect(what, value):
        print(f"{name}: {what}: largest difference {value:.2g}")
        if not value <= TOLERANCE:
            faults.append(f"{name}: {what} differs by {value:.3g}")

    subprocess.run([program, folder, name, "write"], check=True, timeout=60)
    net = make_net()
    net.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
    expect("weights as a torch file and as safetensors", difference(net, folder / f"{name}.safetensors"))
    saved = torch.load(folder / f"{name}.run.pt", weights_only=True)
    if saved["epoch"] != 3 or list(saved["model"]) != [k for k in saved["model"] if k in net.state_dict()]:
        faults.append(f"{name}: epoch or names differ")
    net.load_state_dict(saved["model"])
    optimizer = OPTIMIZERS[name](net.parameters())  # every option comes from the file
    optimizer.load_state_dict(saved["optimizer"])
    steps(net, optimizer, data, 3)
    expect("from Tandem to torch", difference(net, folder / f"{name}.after.safetensors"))
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, folder / f"{name}.python.pt")
    steps(net, optimizer, data, 5)
    subprocess.run([program, folder, name, "read"], check=True, timeout=60)
    expect("from torch to Tandem", difference(net, folder / f"{name}.after.safetensors"))
    return faults


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    faults = []
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = {"x": torch.randn(7, 12, 8), "y": torch.randn(7, 12)}
        save_file(data, folder / "data.safetensors")
        for optimizer in OPTIMIZERS:
            faults += check(sys.argv[1], optimizer, folder, data)
    for fault in faults:
        print("FAULT:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
