"""How long one waits until SAC has solved Pendulum-v1."""

from harness.model import Bench, Better, Contender, Metric, Sample, Size, WrongAnswer
from harness.off_policy_training import OffPolicySettings
from harness.tandem_training import NewLines, TandemTraining
from harness.training import Expected

THRESHOLD = -200.0  # mean return of an evaluation's episodes


def solved(lines: NewLines) -> bool:
    return any((line.get("eval_return_mean") or THRESHOLD - 1) >= THRESHOLD for line in lines.read())


class SacSolved(Bench):
    name = "sac_solved"
    question = (
        "How many seconds after the command is Pendulum-v1 solved by SAC with the shipped settings, evaluated every "
        "1,000 steps (a seed a round; the median counts)?"
    )
    metrics = (Metric("solved_s", "s", Better.LOWER, at_most=8),)
    settings = OffPolicySettings(algo="sac", env="Pendulum-v1", total_steps=20_000, rollout_steps=1000)
    expected = Expected(lowest_return=-1900, highest_return=0, learns_after=20_000, learned_return=-600)

    def contenders(self) -> list[Contender]:
        more = ["eval.every_steps=1000", "eval.episodes=20"]
        arguments = ["--algo", "sac", "--env", "Pendulum-v1", *(word for each in more for word in ("--set", each))]
        self._tandem = TandemTraining(self.place, arguments, self.settings, self.expected, watch=solved)
        self._round = 0
        return [Contender("tandem", self._measure)]

    def _measure(self, size: Size) -> Sample:
        if size is Size.FULL:
            self._round += 1
        sample = self._tandem.measure(size, max(1, self._round))
        seconds = sample.values["watched_s"]
        if size is Size.FULL and seconds == float("inf"):
            raise WrongAnswer(f"seed {self._round} did not solve it")
        return Sample({"solved_s": seconds}, sample.facts)


BENCH = SacSolved
