"""PPO on four pictures of 84x84 pixels with the network of the Nature paper, against peers, and against the rate at
which the machine makes the same layers alone."""

from pathlib import Path

from harness.compiled import read_lines
from harness.model import Contender, Sample, Size
from harness.process import run
from harness.training import VISUAL_CATCH, Settings
from harness.training_bench import (
    CLEANRL,
    CLEANRL_NAME,
    SAMPLE_FACTORY,
    SAMPLE_FACTORY_NAME,
    SB3,
    SB3_NAME,
    TrainingBench,
)

PEAK = "peak of the layers"
FORWARD, BACKWARD = 9.345e6, 15.413e6  # multiply-adds of a row; nobody wants the gradient of the pixels


class PpoImages(TrainingBench):
    name = "ppo_images"
    question = (
        "How many environment steps per second does PPO make on pictures of 84x84 in four channels with convolutions "
        "and 512 units (8 environments, 128 steps, minibatches of 256), against peers with the same settings and "
        "against the fastest way to make the layers alone on this machine (bench/rl/torso_bench.cc)?"
    )
    settings = Settings(
        env="VisualCatch-v0", total_steps=20_480, hidden=(512,), torso="nature_cnn", learning_rate=2.5e-4
    )
    expected = VISUAL_CATCH
    computes = ("bfloat16", "bfloat16_tiles")
    peers = {SB3_NAME: SB3, CLEANRL_NAME: CLEANRL, SAMPLE_FACTORY_NAME: SAMPLE_FACTORY}
    at_least_times = {SB3_NAME: 1.5, PEAK: 0.8}

    def arguments(self, settings: Settings) -> list[str | Path]:
        plugin = self.place.programs.parent / "lib" / "libvisual_catch.so"
        return [*super().arguments(settings), "--plugin", plugin]

    def contenders(self) -> list[Contender]:
        tandem, *others = super().contenders()
        return [tandem, Contender(PEAK, self._measure_peak), *others]

    def _measure_peak(self, size: Size) -> Sample:
        """Steps per second if acting and learning were the layers at that rate and nothing else."""
        words = [self.place.programs / "torso_bench", *(["--smoke"] if size is Size.SMOKE else [])]
        best = read_lines(run(words).stdout, "GFLOP/s")
        rate = best["the best of each"].values["all layers"]
        return Sample({"env_steps_per_s": rate * 1e9 / 2 / (FORWARD + self.settings.epochs * (FORWARD + BACKWARD))})


BENCH = PpoImages
