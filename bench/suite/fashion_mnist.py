"""What a second core is worth: examples/fashion_mnist with the same two shards on two replicas and on one."""

from __future__ import annotations

import gzip
import json
import random
import struct
from pathlib import Path

from harness.model import Bench, Better, Contender, Metric, Sample, Samples, Size, WrongAnswer
from harness.process import run

LEARNED_ACCURACY = 0.80  # after one epoch; guessing gives 0.1
SMOKE_IMAGES = {"train": 512, "t10k": 100}


class FashionMnist(Bench):
    name = "fashion_mnist"
    question = "How many images per second does examples/fashion_mnist learn with shards 2 on cpu:2, against cpu:1?"
    metrics = (Metric("images_per_s", "1/s", Better.HIGHER, at_least_times={"cpu:1": 1.6}),)

    def contenders(self) -> list[Contender]:
        return [
            Contender(devices, lambda size, devices=devices: self._train(devices, size))
            for devices in ("cpu:2", "cpu:1")
        ]

    def _train(self, devices: str, size: Size) -> Sample:
        command = [
            self.place.programs / "fashion_mnist",
            "--devices",
            devices,
            "--shards",
            2,
            "--epochs",
            1,
            "--seed",
            1,
        ]
        if size is Size.SMOKE:
            command += ["--data", noise_images(self.place.scratch / "noise")]
        result = json.loads(run(command).stdout.splitlines()[-1])
        if size is Size.FULL and result["test_accuracy"] < LEARNED_ACCURACY:
            raise WrongAnswer(f"{devices} did not learn: test accuracy {result['test_accuracy']}")
        return Sample(
            {"images_per_s": result["images_per_s"]}, {key: result[key] for key in ("test_accuracy", "state_sha256")}
        )

    def check(self, samples: Samples) -> None:
        """Same shards, same seed: the same bits on one replica and on two."""
        hashes = {sample.facts["state_sha256"] for of_one in samples.values() for sample in of_one}
        if len(hashes) != 1:
            raise WrongAnswer(f"the same shards and seed ended in different states: {', '.join(sorted(hashes))}")


def noise_images(folder: Path) -> Path:
    """A folder as dataset-fashion-mnist installs one, of a few random images: enough to see that everything runs."""
    folder.mkdir(exist_ok=True)
    source = random.Random(0)
    for part, count in SMOKE_IMAGES.items():
        images = struct.pack(">IIII", 0x0803, count, 28, 28) + source.randbytes(count * 28 * 28)
        labels = struct.pack(">II", 0x0801, count) + bytes(i % 10 for i in range(count))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, 1))
    return folder


BENCH = FashionMnist
