"""PPO with an LSTM on CartPole-v1 without its velocities: environment steps per second."""

from dataclasses import dataclass

from harness.model import Contender
from harness.training import Expected, Settings
from harness.training_bench import Peer, TrainingBench
from harness.tandem_training import TandemTraining

CONTRIB = "sb3-contrib"


@dataclass(frozen=True)
class RecurrentSettings(Settings):
    env: str = "MaskedCartPole-v1"
    total_steps: int = 200_000
    hidden: tuple[int, ...] = (64,)
    learning_rate: float = 1e-3
    gamma: float = 0.98
    clip_range_value: float | None = None
    recurrent: str = "lstm"
    recurrent_size: int = 64
    kernel: str = "auto"

    def to_config(self, time_limit: str) -> str:
        return super().to_config(time_limit).replace("ppo:\n", f"ppo:\n  kernel: {self.kernel}\n")

    def policy_section(self) -> str:
        return (
            super().policy_section()
            + f"  recurrent: {self.recurrent}\n  recurrent_size: {self.recurrent_size}\n  max_seq_len: 32\n"
        )


# Without a memory nobody keeps the pole up for longer than about 60 steps.
MASKED = Expected(lowest_return=1, highest_return=500, learns_after=200_000, learned_return=60)
INSIDE = {
    "tandem": RecurrentSettings(),
    "gru": RecurrentSettings(recurrent="gru"),
    "autograd": RecurrentSettings(kernel="off"),
}


class PpoRecurrent(TrainingBench):
    name = "ppo_recurrent"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 without velocities with an LSTM of 64 "
        "units (8 environments, 128 steps, minibatches of 256), with a GRU, by autograd, and against RecurrentPPO of "
        "sb3-contrib with the same settings at its best number of threads?"
    )
    settings = INSIDE["tandem"]
    expected = MASKED
    peers = {
        CONTRIB: Peer(
            "sb3",
            "sb3_recurrent_ppo.py",
            ("sb3-contrib", "stable-baselines3", "torch", "gymnasium"),
            note="hidden layers behind the LSTM",
        )
    }
    at_least_times = {CONTRIB: 10, "autograd": 5}

    def contenders(self) -> list[Contender]:
        mine = super().contenders()
        others = []
        for name, settings in INSIDE.items():
            if name == "tandem":
                continue
            folder = self.place.scratch / name
            folder.mkdir(parents=True, exist_ok=True)
            arguments = [settings.write_config(folder, self.time_limit)]
            training = TandemTraining(self.place, arguments, settings, self.expected)
            others.append(Contender(name, training.measure))
        return [*mine[:1], *others, *mine[1:]]


BENCH = PpoRecurrent
