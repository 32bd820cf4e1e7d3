"""How long one waits for the first update."""

from harness.cartpole import UPDATE_STEPS, Sb3Ppo, TandemPpo
from harness.model import Bench, Better, Contender, Metric, Unavailable

STEPS = 2 * UPDATE_STEPS


class StartUp(Bench):
    name = "start_up"
    question = "How many seconds after the command is the first update done and written down, with how much memory?"
    metrics = (
        Metric("first_update_s", "s", Better.LOWER, at_most=1.5),
        Metric("peak_rss_mb", "MB", Better.LOWER, at_most=300),
    )

    def contenders(self) -> list[Contender]:
        chosen = [Contender("tandem", TandemPpo(self.place, STEPS).measure)]
        try:
            sb3 = Sb3Ppo(self.place, STEPS)
            chosen.append(Contender("stable-baselines3", sb3.measure, sb3.version()))
        except Unavailable as why:
            self.missing["stable-baselines3"] = str(why)
        return chosen


BENCH = StartUp
