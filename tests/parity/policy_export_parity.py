#!/usr/bin/env python3
"""Loads exported policies in Python and compares them with what Tandem computed.

usage: policy_export_parity.py PATH/TO/policy_exports

The driver writes each policy as TorchScript and as safetensors, with observations and its own outputs beside them.
Exits with 1 and names the policy and the quantity when anything differs.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

TOLERANCE = 1e-5
DTYPES = {"Float": torch.float32, "Long": torch.int64, "Byte": torch.uint8}


def tensor(entry):
    return torch.tensor(entry["values"], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])


def worst(mine, theirs):
    if mine.shape != theirs.shape:
        return float("inf")
    return (mine.double() - theirs.double()).abs().max().item()


def compare(case):
    expected = json.loads(case.read_text())
    observation = [tensor(leaf) for leaf in expected["observation"]]
    argument = observation[0] if len(observation) == 1 else observation
    policy = torch.jit.load(case.with_suffix(".pt"))
    with torch.no_grad():
        parameters, value = policy(argument)
        action = policy.act(argument)
        # Simulators in Python often hand out float64.
        as_double = [leaf.double() if leaf.is_floating_point() else leaf for leaf in observation]
        again = policy.act(as_double[0] if len(observation) == 1 else as_double)
    differences = {"value": worst(value, tensor(expected["value"])),
                   "action": worst(action, tensor(expected["action"])),
                   "action from float64": worst(again, tensor(expected["action"]))}
    if len(parameters) != len(expected["parameters"]):
        differences["number of action parameters"] = float("inf")
    for i, (mine, theirs) in enumerate(zip(parameters, expected["parameters"])):
        differences[f"parameter {i}"] = worst(mine, tensor(theirs))
    weights = load_file(case.with_suffix(".safetensors"))
    for name, theirs in zip(expected["names"], expected["weights"]):
        differences[f"weight {name}"] = worst(weights[name], tensor(theirs))
    faults = [f"{name} by {difference:.3g}" for name, difference in differences.items() if not difference <= TOLERANCE]
    return max(differences.values()), faults


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        cases = sorted(pathlib.Path(folder).glob("*.json"))
        if len(cases) < 6:
            raise SystemExit(f"only {len(cases)} policies came from the driver")
        for case in cases:
            largest, faults = compare(case)
            print(f"{case.stem:12} worst difference {largest:.2e}"
                  + (f"  DIFFERS: {', '.join(faults)}" if faults else ""))
            failed = failed or bool(faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
