"""What a run's records cost: lines of metrics, TensorBoard, the profile, the steps of rollouts that may end early."""

from __future__ import annotations

import json
from dataclasses import dataclass

from harness.model import Bench, Better, Contender, Metric, Place, Sample, Size, WrongAnswer
from harness.process import run
from harness.training import Settings

KEPT, LEFT_OUT = "tandem", "without it"
STEPS, SMOKE_STEPS = 1_500_000, 4_096
NO_LINES = ("--set", "log.every_updates=1000000000")
# A group makes all its steps in any case, so that both sides make the same ones.
DD_PPO = ("--algo", "dd_ppo", *NO_LINES)
MAY_END_EARLY = ("--stragglers", "preempt", "--set", "dd_ppo.sync_frac=0.5", "--set", "dd_ppo.least_frac=1")


@dataclass(frozen=True)
class Record:
    """Arguments of `tandem train` with the record and without it, and the file that tells which run it was."""

    name: str
    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    file: str


RECORDS = (
    Record("metrics.jsonl", (), NO_LINES, "metrics.jsonl"),
    Record("TensorBoard", ("--set", "log.tensorboard=true"), (), "events.out.tfevents*"),
    Record("--profile", (*NO_LINES, "--profile"), NO_LINES, "profile.txt"),
    Record("rollouts.jsonl", (*DD_PPO, *MAY_END_EARLY), DD_PPO, "rollouts.jsonl"),
)


class Records(Bench):
    name = "records"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 (8 environments, 128 steps, minibatches of "
        "256, two replicas) with each of its records and without it? An update of 1.4 ms has a line of its own."
    )

    def __init__(self, place: Place):
        super().__init__(place)
        self.metrics = tuple(
            Metric(record.name, "steps/s", Better.HIGHER, at_least_times={LEFT_OUT: 0.99}) for record in RECORDS
        )
        self._runs = self._rounds = 0

    def contenders(self) -> list[Contender]:
        return [Contender(name, _within_the_round) for name in (KEPT, LEFT_OUT)]

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        """The two runs of a record follow one another, and take turns in being the first."""
        config = Settings().write_config(self.place.scratch)
        samples = {KEPT: Sample({}), LEFT_OUT: Sample({})}
        self._rounds += 1
        for record in RECORDS:
            for side in (KEPT, LEFT_OUT) if self._rounds % 2 else (LEFT_OUT, KEPT):
                summary = self._train([config, *(record.kept if side == KEPT else record.left_out)], size, record, side)
                samples[side].values[record.name] = summary["env_steps_per_s"]
                samples[side].facts[record.name] = summary["state_sha256"]
        return samples

    def _train(self, arguments: list, size: Size, record: Record, side: str) -> dict:
        self._runs += 1
        folder = self.place.scratch / f"records-{self._runs}"
        steps = SMOKE_STEPS if size is Size.SMOKE else STEPS
        command = [self.place.programs / "tandem", "train", *arguments, "--quiet", "--seed", 1]
        run([*command, "--total-steps", steps, "--run-dir", folder])
        files = list(folder.glob(record.file))
        if record.file == "metrics.jsonl":  # the last update has a line in any case
            is_kept = len(files[0].read_text().splitlines()) > 1
        else:
            is_kept = bool(files)
        if is_kept != (side == KEPT):
            raise WrongAnswer(f"{record.name}: {record.file} of {folder} is not that of a run {side}")
        return json.loads((folder / "summary.json").read_text())

    def check(self, samples) -> None:
        states = [sample.facts for rounds in samples.values() for sample in rounds]
        for record in RECORDS:
            if len({state[record.name] for state in states}) > 1:
                raise WrongAnswer(f"{record.name}: a record changed the numbers")


def _within_the_round(size: Size) -> Sample:
    raise NotImplementedError("it takes its turn within the round of the bench")


BENCH = Records
