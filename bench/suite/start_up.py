"""How long one waits for the first update."""

from harness.cartpole import UPDATE_STEPS, Sb3Ppo, TandemPpo
from harness.model import Bench, Better, Contender, Metric

STEPS = 2 * UPDATE_STEPS


class StartUp(Bench):
    name = "start_up"
    question = "How many seconds after the command is the first update done and written down, with how much memory?"
    metrics = (
        Metric("first_update_s", "s", Better.LOWER, at_most=1.5),
        Metric("peak_rss_mb", "MB", Better.LOWER, at_most=300),
    )

    def contenders(self) -> list[Contender]:
        tandem = Contender("tandem", TandemPpo(self.place, STEPS).measure)
        return self.with_peers([tandem], {"stable-baselines3": self._sb3})

    def _sb3(self) -> Contender:
        sb3 = Sb3Ppo(self.place, STEPS)
        return Contender("stable-baselines3", sb3.measure, sb3.version())


BENCH = StartUp
