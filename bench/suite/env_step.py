"""bench/env/env_step_bench.cc, and the same environments in gymnasium."""

from harness.compiled import CompiledBench, read_lines
from harness.model import Better, Contender, Sample, Size
from harness.process import run


class EnvStep(CompiledBench):
    name = "env_step"
    question = (
        "How many steps per second does one thread make with each native environment, 64 and 4,096 at a time, "
        "against gymnasium's SyncVectorEnv with 64?"
    )
    program = "env_step_bench"
    unit = "1/s"
    better = Better.HIGHER

    def contenders(self) -> list[Contender]:
        return self.with_peers(super().contenders(), {"gymnasium": self._gymnasium})

    def _gymnasium(self) -> Contender:
        self._python = self.place.peers("sb3", "sb3-requirements.txt")  # gymnasium is among them
        return Contender("gymnasium", self._step_gymnasium)

    def _step_gymnasium(self, size: Size) -> Sample:
        script = self.place.root / "bench" / "peers" / "gymnasium_step.py"
        seconds = 0.5 if size is Size.FULL else 0.01
        done = run([self._python, script, "--seconds", seconds], environment={"OMP_NUM_THREADS": "1"})
        return read_lines(done.stdout, self.unit)["gymnasium"]


BENCH = EnvStep
