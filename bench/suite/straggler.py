"""bench/sync/straggler_bench.cc, and TensorFlow's SyncReplicasOptimizer with the same model and workers: as its
documentation says, each a process with a server, and as threads of one session."""

import json
from pathlib import Path

from harness.model import Bench, Better, Contender, Failed, Metric, Sample, Size, WrongAnswer
from harness.process import run

BESIDE, DROPPED, OF_TWO = "steps/s beside a straggler", "dropped of the fast", "steps/s of two"


class Straggler(Bench):
    name = "straggler"
    question = "What does a worker of three that sleeps 200 ms a step cost, with two gradients a step? 94k parameters"
    metrics = (
        Metric(BESIDE, "1/s", Better.HIGHER, at_least_times={"two alone": 0.9, "replicated": 10}),
        Metric(DROPPED, "%", Better.LOWER, at_most=5),
        Metric(OF_TWO, "1/s", Better.HIGHER, at_least_times={"tensorflow": 5}),
    )

    def contenders(self) -> list[Contender]:
        names = ("tandem", "two alone", "replicated", "tandem, processes", "tandem, standby", "no exchange")
        ours = [Contender(name, _measured_with_others) for name in names]
        names = ("tensorflow", "tensorflow, waiting", "tensorflow, one session")
        return self.with_peers(ours, {name: lambda name=name: self._tensorflow(name) for name in names})

    def _tensorflow(self, name: str) -> Contender:
        self._python = self.place.peers("tensorflow", "../../tools/tensorflow-requirements.txt")
        return Contender(name, _measured_with_others)

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        """A turn of each of the two programs. TensorFlow's ends nobody else's measurement."""
        smoke = ["--smoke"] if size is Size.SMOKE else []
        names = [contender.name for contender in contenders if contender.name not in self.missing]
        peers = [name for name in names if name in self.peer_names]
        ours = [name for name in names if name not in peers]
        samples = _samples([self.place.programs / "straggler_bench", *smoke], ours)
        if peers:
            script = self.place.root / "bench" / "peers" / "tensorflow_straggler.py"
            try:
                samples |= _samples([self._python, script, *smoke], peers)
            except (Failed, WrongAnswer) as failure:
                self.missing |= {name: f"{type(failure).__name__}: {failure}" for name in peers}
        return samples


def _samples(command: list[str | Path], names: list[str]) -> dict[str, Sample]:
    """What a program prints of these contenders."""
    samples = {name: Sample({}) for name in names}
    for line in map(json.loads, run(command).stdout.splitlines()):
        samples[line["contender"]].values[line["case"]] = line["value"]
    for name, sample in samples.items():
        if not sample.values:
            raise WrongAnswer(f"{command[0]} printed no numbers of {name}")
    return samples


def _measured_with_others(size: Size) -> Sample:
    raise NotImplementedError("it takes its turn with the others of its program")


BENCH = Straggler
