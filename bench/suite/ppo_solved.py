"""How long one waits until CartPole-v1 is solved."""

from harness.model import Bench, Better, Contender, Metric, Sample, Size, WrongAnswer
from harness.script_peer import ScriptPeer
from harness.tandem_training import SolvedLine, TandemTraining
from harness.training import CARTPOLE, Settings
from harness.training_bench import (
    CLEANRL,
    CLEANRL_NAME,
    SB3,
    SB3_NAME,
    Peer,
    cleanrl_config,
    script_peer,
    version_of,
)

THRESHOLD = 475.0  # mean return of the last 100 episodes


class Seeds:
    """Another seed each full round, the same for all contenders."""

    def __init__(self, measure):
        self._measure = measure
        self._round = 0

    def __call__(self, size: Size) -> Sample:
        if size is Size.FULL:
            self._round += 1
        return self._measure(size, max(1, self._round))


class PpoSolved(Bench):
    name = "ppo_solved"
    question = (
        "How many seconds after the command is CartPole-v1 solved with configs/cartpole-cleanrl.yaml (a seed a round, "
        "the median counts; a run that does not solve it within its 500,000 steps counts as never)?"
    )
    metrics = (Metric("solved_s", "s", Better.LOWER, at_most=3),)
    settings = Settings()

    def contenders(self) -> list[Contender]:
        self._tandem = TandemTraining(
            self.place, [cleanrl_config(self.place)], self.settings, CARTPOLE, watch=SolvedLine(THRESHOLD)
        )
        self._scripts: list[ScriptPeer] = []
        peers = {SB3_NAME: lambda: self._peer(SB3_NAME, SB3), CLEANRL_NAME: lambda: self._peer(CLEANRL_NAME, CLEANRL)}
        return self.with_peers([Contender("tandem", Seeds(self._solve))], peers)

    def _solve(self, size: Size, seed: int) -> Sample:
        sample = self._tandem.measure(size, seed)
        seconds = sample.values.pop("watched_s")
        solved = sample.facts["solved_at_env_steps"] is not None
        if solved != (seconds < float("inf")):
            raise WrongAnswer(f"tandem's summary says solved: {solved}, its metrics the contrary, seed {seed}")
        return Sample({"solved_s": seconds}, sample.facts)

    def _peer(self, name: str, peer: Peer) -> Contender:
        made = script_peer(self.place, name, peer, self.settings, CARTPOLE, arguments=("--until-solved",))
        self._scripts.append(made)
        return Contender(name, Seeds(made.measure), version_of(made, peer))

    def prepare(self, contenders: list[Contender]) -> None:
        for script in self._scripts:
            script.choose_threads()


BENCH = PpoSolved
