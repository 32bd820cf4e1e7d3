"""Which part of an update is not loss and gradients: `tandem train --profile`, on the workload of ppo_cartpole."""

import json
import re
from pathlib import Path

from harness.model import Bench, Better, Contender, Metric, Sample, Size, WrongAnswer
from harness.process import run
from harness.training import CARTPOLE, Settings
from harness.training_bench import cleanrl_config

KERNELS = "loss and gradients"
# thread, phase, own s, share, all s, times, mean us, longest ms; the first two may hold single spaces
LINE = re.compile(r"^(?P<thread>\S.*?)\s{2,}(?P<phase>\S.*?)\s{2,}[\d.]+\s+[\d.]+%\s+[\d.]+\s+"
                  r"(?P<times>\d+)\s+(?P<us>[\d.]+)\s")


class OutsideKernels(Bench):
    name = "outside_kernels"
    question = (
        "Which percentage of PPO's updates on CartPole-v1 with configs/cartpole-cleanrl.yaml, on one replica and "
        "without rollouts, goes into other things than the fused kernels of loss and gradients: order of the rows, "
        "advantage moments, norm, optimizer?"
    )
    metrics = (Metric("outside_of_kernels", "%", Better.LOWER, at_most=15), Metric("update_ms", "ms", Better.LOWER))
    settings = Settings(total_steps=200 * Settings().update_steps())

    def contenders(self) -> list[Contender]:
        self._runs = 0
        return [Contender("tandem", self._train)]

    def _train(self, size: Size) -> Sample:
        self._runs += 1
        folder = self.place.scratch / f"outside-{self._runs}"
        steps = self.settings.total_steps if size is Size.FULL else self.settings.smoke_steps()
        command = [self.place.programs / "tandem", "train", cleanrl_config(self.place), "--devices", "cpu:1"]
        run([*command, "--quiet", "--profile", "--total-steps", steps, "--run-dir", folder])
        CARTPOLE.check("tandem", steps, self.settings.update_steps(), json.loads((folder / "summary.json").read_text()))
        updates = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        update_ms = sum(line["load_ms"] + line["learn_ms"] + line["sync_ms"] for line in updates)
        kernels_ms, times = kernels_of(folder / "profile.txt")
        minibatches = len(updates) * self.settings.epochs * self.settings.update_steps() // self.settings.minibatch_size
        shards = 2
        if times != shards * minibatches:
            raise WrongAnswer(f"{times} calls of the kernels, {shards * minibatches} were expected: "
                              "one for each shard of a minibatch")
        if not 0 < kernels_ms < update_ms:
            raise WrongAnswer(f"the kernels took {kernels_ms:.3f} ms of updates of {update_ms:.3f} ms")
        values = {"outside_of_kernels": 100 * (1 - kernels_ms / update_ms), "update_ms": update_ms / len(updates)}
        return Sample(values, {"updates": len(updates), "calls": times})


def kernels_of(table: Path) -> tuple[float, int]:
    """Milliseconds in the fused kernels, and how often they were called. Without them there is no such line."""
    for found in map(LINE.match, table.read_text().splitlines()):
        if found and found["phase"] == KERNELS:
            return 1e-3 * float(found["us"]) * int(found["times"]), int(found["times"])
    raise WrongAnswer(f"{table} has no '{KERNELS}': the run had no fused kernels")


BENCH = OutsideKernels
