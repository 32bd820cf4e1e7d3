"""bench/env/python_envs_bench.cc, and the same games in ale_py's vector environment alone."""

from harness.compiled import read_lines
from harness.model import Bench, Better, Contender, Metric, Sample, Size
from harness.process import run

PEER = "vector_entry_point"
CASE = "ALE/Pong-v5 x 64"


class PythonAtari(Bench):
    name = "python_atari"
    question = (
        "How many steps a second does an env group of 64 games of ALE/Pong-v5 make, against the vector environment of "
        "ale_py alone, which steps them by as many threads in the worker of the group?"
    )
    metrics = (Metric(CASE, "1/s", Better.HIGHER, None, {PEER: 0.9}),)

    def contenders(self) -> list[Contender]:
        # It has ale_py; where it is not there, there is no Python to step, and nothing is measured.
        python = self.place.peers("sb3", "sb3-requirements.txt")
        program = self.place.programs / "python_envs_bench"
        script = self.place.root / "bench" / "peers" / "vector_step.py"

        def tandem(size: Size) -> Sample:
            words = [program, python, self._seconds(size), "ALE/Pong-v5", 64, 1]
            return read_lines(run(words).stdout, "1/s")["tandem"]

        def peer(size: Size) -> Sample:
            words = [python, script, "ALE/Pong-v5", 64, "--seconds", self._seconds(size), "--only", PEER]
            return read_lines(run(words).stdout, "1/s")[PEER]

        return self.with_peers([Contender("tandem", tandem)], {PEER: lambda: Contender(PEER, peer)})

    def _seconds(self, size: Size) -> float:
        return 5.0 if size is Size.FULL else 0.05


BENCH = PythonAtari
