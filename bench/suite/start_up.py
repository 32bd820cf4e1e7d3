"""How long one waits for the first update."""

from harness.model import Bench, Better, Contender, Metric, Sample, Size, WrongAnswer
from harness.tandem_training import TandemTraining
from harness.training import CARTPOLE, Settings
from harness.training_bench import SB3, SB3_NAME, cleanrl_config, script_peer, version_of

UPDATES = 2


class StartUp(Bench):
    name = "start_up"
    question = "How many seconds after the command is the first update done and written down, with how much memory?"
    metrics = (
        Metric("first_update_s", "s", Better.LOWER, at_most=1.5),
        Metric("peak_rss_mb", "MB", Better.LOWER, at_most=300),
    )
    settings = Settings(total_steps=UPDATES * Settings().update_steps())

    def contenders(self) -> list[Contender]:
        self._tandem = TandemTraining(self.place, [cleanrl_config(self.place)], self.settings, CARTPOLE)
        return self.with_peers([Contender("tandem", self._start)], {SB3_NAME: self._sb3})

    def _start(self, size: Size) -> Sample:
        sample = self._tandem.measure(size)
        seconds = sample.values.pop("watched_s")
        if seconds == float("inf"):
            raise WrongAnswer("tandem wrote no line of metrics")
        return Sample(sample.values | {"first_update_s": seconds}, sample.facts)

    def _sb3(self) -> Contender:
        made = script_peer(self.place, SB3_NAME, SB3, self.settings, CARTPOLE)
        return Contender(SB3_NAME, made.measure, version_of(made, SB3))


BENCH = StartUp
