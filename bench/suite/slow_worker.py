"""Fashion-MNIST with one of four workers ten times slower: sync_replicas, which does not wait for it, and
replicated."""

from __future__ import annotations

import json

from harness.model import Bench, Better, Contender, Metric, Sample, Samples, Size, WrongAnswer
from harness.process import run
from suite.fashion_mnist import noise_images

WORKERS, ENOUGH = 4, 3  # gradients of a step under sync_replicas
LEARNED_ACCURACY = 0.88  # after two epochs


class SlowWorker(Bench):
    name = "slow_worker"
    question = "How long do two epochs of Fashion-MNIST take when one of four workers is 10 times slower?"
    metrics = (Metric("train_s", "s", Better.LOWER, at_least_times={"replicated": 2.5}),)

    def contenders(self) -> list[Contender]:
        first = ["--strategy", "sync_replicas", "--replicas-to-aggregate", ENOUGH]
        return [
            Contender("sync_replicas", lambda size: self._train(first, size)),
            Contender("replicated", lambda size: self._train(["--strategy", "replicated"], size)),
        ]

    def _train(self, strategy: list, size: Size) -> Sample:
        command = [self.place.programs / "fashion_mnist", *strategy, "--devices", f"cpu:{WORKERS}"]
        command += ["--shards", WORKERS, "--slow", WORKERS - 1, 10, "--epochs", 2, "--seed", 1]
        if size is Size.SMOKE:
            command += ["--data", noise_images(self.place.scratch / "noise")]
        result = json.loads(run(command).stdout.splitlines()[-1])
        return Sample({"train_s": result["train_s"]}, {"test_accuracy": result["test_accuracy"], "size": size.name})

    def check(self, samples: Samples) -> None:
        """What did not wait has learned as well."""
        for contender, of_one in samples.items():
            for sample in of_one:
                if sample.facts["size"] == Size.FULL.name and sample.facts["test_accuracy"] < LEARNED_ACCURACY:
                    raise WrongAnswer(f"{contender} did not learn: test accuracy {sample.facts['test_accuracy']}")


BENCH = SlowWorker
