#!/usr/bin/env python3
"""reaches.py TANDEM RETURN [--metric NAME] [--seeds N] [--needed M]
    [--within STEPS | --at-end | --stays-below | --evaluated] -- TRAIN ARGUMENTS...

Trains with seeds 1..N and fails unless the mean return of the last 100 episodes reached RETURN in M of the runs, at
some update of the run, with --within at one after no more than STEPS environment steps, or, with --at-end, at its last
one; with --stays-below, unless M of the runs never reached it. With --metric it is another metric than the mean return
that is meant, such as env/solved. With --evaluated the return is that of 100 episodes which the last policy plays
without exploring. Prints a line for each seed.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path


def returns(run: Path, metric: str) -> list[tuple[int, float]]:
    """(env_steps, metric over the last 100 episodes) of each update that has so many: the first to end are often not
    like the rest."""
    lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return [(line["env_steps"], line[metric]) for line in lines if line["episodes"] >= 100]


def evaluated(tandem: str, run: Path, train: list[str]) -> float:
    """By `tandem eval`, with the Python that the training had."""
    python = ["--python", train[train.index("--python") + 1]] if "--python" in train else []
    command = [tandem, "eval", str(run), "--episodes", "100", "--json", *python]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["return_mean"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("wanted", type=float, metavar="RETURN")
    parser.add_argument("--metric", default="episode_return_mean")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--needed", type=int, help="of the seeds (all)")
    judged = parser.add_mutually_exclusive_group()
    judged.add_argument("--within", type=int, metavar="STEPS", help="environment steps until it is reached")
    judged.add_argument("--at-end", action="store_true")
    judged.add_argument("--stays-below", action="store_true", help="what a task asks for, this cannot learn")
    judged.add_argument("--evaluated", action="store_true", help="the last policy, by `tandem eval`")
    parser.add_argument("train", nargs="+")
    options = parser.parse_args()
    needed = options.seeds if options.needed is None else options.needed
    good = 0
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory(prefix="tandem-learn-") as folder:
            run = Path(folder) / "run"
            command = [options.tandem, "train", *options.train, "--seed", str(seed), "--run-dir", str(run), "--quiet"]
            subprocess.run(command, check=True)
            if options.evaluated:
                mean = evaluated(options.tandem, run, options.train)
                good += mean >= options.wanted
                print(f"seed {seed}: {mean:.1f} at the end, {options.wanted:g} wanted", flush=True)
                continue
            all_returns = returns(run, options.metric)
        reached = next((steps for steps, mean in all_returns if mean >= options.wanted), None)
        steps, last = all_returns[-1]
        if options.stays_below:
            good += reached is None
        else:
            in_time = reached is not None and (options.within is None or reached <= options.within)
            good += last >= options.wanted if options.at_end else in_time
        best = max(mean for _, mean in all_returns)
        print(f"seed {seed}: reached {options.wanted:g} at {reached}, best {best:.1f}, {last:.1f} at {steps}",
              flush=True)
    print(f"{good} of {options.seeds} runs, {needed} wanted")
    return 0 if good >= needed else 1


if __name__ == "__main__":
    raise SystemExit(main())
