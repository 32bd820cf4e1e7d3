"""PPO on CartPole-v1 with CleanRL's settings: environment steps per second, against stable-baselines3."""

from harness.cartpole import Sb3Ppo, TandemPpo
from harness.model import Bench, Better, Contender, Metric, Samples, WrongAnswer

STEPS = 500_000  # those of the configuration


class PpoCartPole(Bench):
    name = "ppo_cartpole"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 with configs/cartpole-cleanrl.yaml, "
        "against stable-baselines3 with the same settings at its best number of threads, and with how much memory?"
    )
    metrics = (
        Metric("env_steps_per_s", "1/s", Better.HIGHER, at_least_times={"stable-baselines3": 3}),
        Metric("peak_rss_mb", "MB", Better.LOWER, at_most=300),
    )

    def contenders(self) -> list[Contender]:
        self.tandem = TandemPpo(self.place, STEPS)
        return self.with_peers([Contender("tandem", self.tandem.measure)], {"stable-baselines3": self._sb3})

    def _sb3(self) -> Contender:
        self.sb3 = Sb3Ppo(self.place, STEPS)
        return Contender("stable-baselines3", self.sb3.measure, self.sb3.version())

    def prepare(self, contenders: list[Contender]) -> None:
        if len(contenders) > 1:
            self.sb3.choose_threads()

    def check(self, samples: Samples) -> None:
        hashes = {sample.facts["state_sha256"] for sample in samples["tandem"]}
        if len(hashes) != 1:
            raise WrongAnswer(f"the same seed ended in different states: {', '.join(sorted(hashes))}")


BENCH = PpoCartPole
