"""PPO where there is less than two cores' time: on one core, and in half a core's time on all of them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from harness.model import Bench, Better, Contender, Metric, Place, Sample, Size, WrongAnswer
from harness.process import run
from harness.training import Settings

STEPS, SMOKE_STEPS = 500_000, 4_096
LAYOUTS = {
    "cpu:1": ["--devices", "cpu:1"],
    "cpu:2": ["--devices", "cpu:2"],
    "2 ranks": ["--devices", "cpu:1", "--ranks", "2"],
}
ONE_CORE, HALF_A_CORE, MANY_THREADS = "one core", "half a core", "OMP_NUM_THREADS=64"
LOST = "lost by the slowest layout"
GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


class LessThanTwoCores(Bench):
    name = "less_than_two_cores"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 (two shards, 8 environments, 128 steps, "
        "minibatches of 256) as one replica, two replicas and two ranks, on one core, in half a core's time on two, "
        "and where the environment asks for 64 threads; and which percentage does the slowest of them lose against the "
        "fastest?"
    )

    def __init__(self, place: Place):
        super().__init__(place)
        self._runs = 0

    def contenders(self) -> list[Contender]:
        return [Contender("tandem", self._measure)]

    def _measure(self, size: Size) -> Sample:
        first = str(min(os.sched_getaffinity(0)))
        sample, metrics = Sample({}), []
        with half_a_core() as within:
            places = {
                ONE_CORE: (["taskset", "-c", first], {}),
                HALF_A_CORE: (within, {}),
                MANY_THREADS: ([], {"OMP_NUM_THREADS": "64"}),
            }
            for name, (prefix, variables) in places.items():
                if prefix is None:
                    self.missing[name] = "no control group with a quota can be made here"
                    continue
                rates = {}
                for layout, arguments in LAYOUTS.items():
                    summary = self._train(size, prefix, arguments, variables)
                    rates[layout] = summary["env_steps_per_s"]
                    sample.facts[f"{name}, {layout}"] = summary["state_sha256"]
                    sample.values[f"{name}, {layout}"] = rates[layout]
                    metrics.append(Metric(f"{name}, {layout}", "steps/s", Better.HIGHER))
                sample.values[f"{name}, {LOST}"] = 100 * (1 - min(rates.values()) / max(rates.values()))
                # On two cores the layouts differ for good.
                metrics.append(Metric(f"{name}, {LOST}", "%", Better.LOWER, None if name == MANY_THREADS else 10))
        self.metrics = tuple(metrics)
        return sample

    def _train(self, size: Size, prefix: list[str], arguments: list[str], variables: dict[str, str]) -> dict:
        self._runs += 1
        folder = self.place.scratch / f"less-{self._runs}"
        steps = SMOKE_STEPS if size is Size.SMOKE else STEPS
        config = Settings().write_config(self.place.scratch)
        command = [*prefix, self.place.programs / "tandem", "train", config, *arguments, "--quiet", "--seed", 1]
        run([*command, "--total-steps", steps, "--run-dir", folder], environment=variables)
        return json.loads((folder / "summary.json").read_text())

    def check(self, samples) -> None:
        states = {state for sample in samples["tandem"] for state in sample.facts.values()}
        if len(states) > 1:
            raise WrongAnswer(f"the same seed ended in {len(states)} states")


@contextlib.contextmanager
def half_a_core() -> Iterator[list[str] | None]:
    """What a command needs before it to run in half a core's time; None where no such control group can be made."""
    is_second = (GROUPS / "cgroup.controllers").exists()
    group = GROUPS / ("" if is_second else "cpu") / f"tandem-bench-{os.getpid()}"
    quota = PERIOD_US // 2
    limits = (
        {"cpu.max": f"{quota} {PERIOD_US}"}
        if is_second
        else {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    )
    with contextlib.ExitStack() as undo:
        try:
            group.mkdir()
            undo.callback(group.rmdir)
            for file, text in limits.items():
                (group / file).write_text(text)
            prefix = ["sh", "-c", f'echo $$ > {group / "cgroup.procs"} && exec "$@"', "sh"]
        except OSError:
            prefix = None
        yield prefix


BENCH = LessThanTwoCores
