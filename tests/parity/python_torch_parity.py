#!/usr/bin/env python3
"""The Python package beside the package torch in one process: one LibTorch, and neither changes the other's numbers.

usage: python_torch_parity.py PATH/TO/tandem PATH/TO/build/python

torch is imported before tandem, after it, and within a callback. Each time torch trains a module of its own before and
after a training of Tandem's, and while it is called back. Exits with 1 and names what differs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SIZES = ["--total-steps", "1024", "--num-envs", "4", "--rollout-steps", "32", "--set", "policy.hidden=8"]
ORDERS = {
    "torch first": "import torch, tandem",
    "tandem first": "import tandem; tandem._load.core(); import torch",
    "torch in a callback": "",
}

PROGRAM = """
import json, sys

def libraries():
    return {line.split()[-1] for line in open("/proc/self/maps") if "/libtorch_cpu" in line or "/libc10.so" in line}

def trained(workers=0):
    import torch
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rows = torch.utils.data.TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
    for inputs, targets in torch.utils.data.DataLoader(rows, batch_size=32, num_workers=workers):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return [parameter.detach().flatten().tolist() for parameter in model.parameters()]

def state():
    import torch
    its = [torch.get_default_dtype(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()]
    return [torch.get_num_threads(), *map(str, its)]
"""

ALONE = PROGRAM + """
print(json.dumps({"trained": trained(), "state": state()}))
"""
TOGETHER = PROGRAM + """
IMPORTS
before = (trained(2), state()) if "torch" in sys.modules else None
within = []
import tandem
run = tandem.train(env="CartPole-v1", total_steps=1024, num_envs=4, rollout_steps=32, policy={"hidden": [8]}, seed=3,
                   quiet=True, run_dir=sys.argv[1], on_update=lambda update: within.append(trained()))
after = (trained(2), state())
print(json.dumps({"libraries": sorted(libraries()), "before": before or after, "within": within, "after": after,
                  "sha256": run.summary["state_sha256"]}))
"""


def run(program, *words, package=None):
    variables = {**os.environ, **({"PYTHONPATH": str(package)} if package else {})}
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"it ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    tandem, package = sys.argv[1:]
    alone = run(ALONE)
    faults = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        words = ["train", "--env", "CartPole-v1", *SIZES, "--seed", "3", "--quiet", "--run-dir", folder / "program"]
        subprocess.run([tandem, *map(str, words)], check=True, timeout=300)
        sha256 = json.loads((folder / "program" / "summary.json").read_text())["state_sha256"]
        for number, (order, imports) in enumerate(ORDERS.items()):
            its = run(TOGETHER.replace("IMPORTS", imports), folder / str(number), package=package)
            is_right = {
                "the number of LibTorch's libraries": len(its["libraries"]) == 2,
                "the folder of LibTorch": all("/site-packages/torch/lib/" in path for path in its["libraries"]),
                "torch's numbers before": its["before"][0] == alone["trained"],
                "torch's numbers in callbacks": its["within"] == [alone["trained"]] * 8,
                "torch's numbers afterwards": its["after"][0] == alone["trained"],
                "torch's settings": its["before"][1] == its["after"][1] == alone["state"],
                "the run's state": its["sha256"] == sha256,
            }
            faults += [f"{order}: {what} differs" for what, its_right in is_right.items() if not its_right]
            print(f"{order}: {', '.join(its['libraries'])}")
    print("\n".join(faults) or "torch and tandem in one process: equal numbers")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
