"""PPO on a CUDA device: the update as a CUDA graph, by autograd step for step, and on the CPU."""

import subprocess

from harness.model import Bench, Better, Contender, Metric, Place, Samples, Unavailable, WrongAnswer
from harness.tandem_training import TandemTraining
from harness.training import CARTPOLE, Settings

GRAPH, AUTOGRAD, CPU = "tandem", "by autograd, on the same device", "on cpu:2"


def require_cuda_device() -> None:
    """Throws Unavailable."""
    try:
        found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired) as missing:
        raise Unavailable(f"it needs a CUDA device, and nvidia-smi cannot be asked for one: {missing}") from missing
    if found.returncode != 0 or "GPU 0" not in found.stdout:
        raise Unavailable(f"it needs a CUDA device, and nvidia-smi lists none: {(found.stdout + found.stderr).strip()}")


class PpoCuda(Bench):
    name = "ppo_cuda"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 with the policy on cuda:0 (64 "
        "environments, 128 steps, minibatches of 2048, 256x256 networks) when its passes are a CUDA graph, against "
        "the same ones started kernel by kernel, and against two cores?"
    )
    settings = Settings(num_envs=64, minibatch_size=2048, hidden=(256, 256))

    def __init__(self, place: Place):
        super().__init__(place)
        self.metrics = (
            Metric("env_steps_per_s", "1/s", Better.HIGHER, at_least_times={AUTOGRAD: 1}),
            Metric("learn_ms", "ms", Better.LOWER),
        )

    def contenders(self) -> list[Contender]:
        require_cuda_device()
        return [
            self._contender(GRAPH, "--devices", "cuda:0"),
            self._contender(AUTOGRAD, "--devices", "cuda:0", "--set", "ppo.kernel=off"),
            self._contender(CPU),
        ]

    def _contender(self, name: str, *arguments: str) -> Contender:
        config = self.settings.write_config(self.place.scratch)
        training = TandemTraining(self.place, [config, *arguments], self.settings, CARTPOLE, means=["learn_ms"])
        return Contender(name, training.measure)

    def check(self, samples: Samples) -> None:
        hashes = {sample.facts["state_sha256"] for name in (GRAPH, AUTOGRAD) for sample in samples[name]}
        if len(hashes) != 1:
            raise WrongAnswer(f"the graph and autograd ended in different states: {', '.join(sorted(hashes))}")


BENCH = PpoCuda
