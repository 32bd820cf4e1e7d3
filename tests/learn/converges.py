#!/usr/bin/env python3
"""converges.py TANDEM KUHN_NASH NASH_CONV [--seeds N] -- TRAIN ARGUMENTS...

Trains Kuhn poker with seeds 1..N, exports the policies of both players, and fails unless of each run the exact NashConv
of what was exported is at most NASH_CONV and its value within 0.05 of the game's, -1/18. Prints a line for each seed.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

VALUE = -1 / 18


def measured(program: str, policies: list[Path]) -> dict[str, float]:
    said = subprocess.run([program, *map(str, policies)], check=True, capture_output=True, text=True).stdout
    return {name: float(number) for name, number in (line.split() for line in said.splitlines()[:2])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("kuhn_nash")
    parser.add_argument("most", type=float, metavar="NASH_CONV")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("train", nargs="+")
    options = parser.parse_args()
    good = 0
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory(prefix="tandem-learn-") as folder:
            run, policies = Path(folder) / "run", [Path(folder) / "player_0.pt", Path(folder) / "player_1.pt"]
            command = [options.tandem, "train", *options.train, "--seed", str(seed), "--run-dir", str(run), "--quiet"]
            subprocess.run(command, check=True)
            for policy in policies:
                export = [options.tandem, "export", str(run), "--policy", policy.stem, "-o", str(policy)]
                subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
            found = measured(options.kuhn_nash, policies)
        good += found["nash_conv"] <= options.most and abs(found["value"] - VALUE) <= 0.05
        print(f"seed {seed}: NashConv {found['nash_conv']:.4f}, value {found['value']:.4f} ({VALUE:.4f})", flush=True)
    print(f"{good} of {options.seeds} runs")
    return 0 if good == options.seeds else 1


if __name__ == "__main__":
    raise SystemExit(main())
