"""bench/env/python_envs_bench.cc, and the same environments in vector environments of Python."""

from harness.compiled import read_lines
from harness.model import Bench, Better, Contender, Metric, Sample, Size
from harness.process import run

PEERS = {
    "SubprocVecEnv": 3.0,
    "AsyncVectorEnv": 1.0,
    "AsyncVectorEnv, pipes": 1.0,
    "SyncVectorEnv": None,
    "vector_entry_point": None,  # CartPole's own, of arrays
}
CASE = "CartPole-v1 x 64"


class PythonEnvs(Bench):
    name = "python_envs"
    question = (
        "How many steps a second does an env group of 64 CartPoles of gymnasium make in two worker processes, against "
        "gymnasium's and stable-baselines3's vector environments, which have a process each or one for all?"
    )
    metrics = (Metric(CASE, "1/s", Better.HIGHER, None, {name: least for name, least in PEERS.items() if least}),)

    def contenders(self) -> list[Contender]:
        # It has gymnasium; where it is not there, there is no Python to step, and nothing is measured.
        python = self.place.peers("sb3", "sb3-requirements.txt")
        program = self.place.programs / "python_envs_bench"
        script = self.place.root / "bench" / "peers" / "vector_step.py"

        def tandem(size: Size) -> Sample:
            words = [program, python, self._seconds(size), "gymnasium:CartPole-v1", 64, 2]
            return read_lines(run(words).stdout, "1/s")["tandem"]

        def peer(name: str) -> Contender:
            def measure(size: Size) -> Sample:
                words = [python, script, "CartPole-v1", 64, "--seconds", self._seconds(size), "--only", name]
                return read_lines(run(words, environment={"OMP_NUM_THREADS": "1"}).stdout, "1/s")[name]

            return Contender(name, measure)

        return self.with_peers([Contender("tandem", tandem)], {name: lambda name=name: peer(name) for name in PEERS})

    def _seconds(self, size: Size) -> float:
        return 2.0 if size is Size.FULL else 0.05


BENCH = PythonEnvs
