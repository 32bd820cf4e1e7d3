"""bench/env/env_step_bench.cc, and the same environments in gymnasium, EnvPool and PufferLib."""

from harness.compiled import CompiledBench, read_lines
from harness.model import Better, Contender, Sample, Size
from harness.process import run

GYMNASIUM, ENVPOOL, PUFFER = "gymnasium", "envpool", "pufferlib"
NAMES = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
COUNTS = (64, 4096)


def targets() -> dict[str, dict[str, float]]:
    every = {f"{name} x {count}": {GYMNASIUM: 20.0, ENVPOOL: 1.0} for name in NAMES for count in COUNTS}
    for count in COUNTS:
        every[f"CartPole-v1 x {count}"][PUFFER] = 1.0
    return every


class EnvStep(CompiledBench):
    name = "env_step"
    question = (
        "How many steps per second does one thread make with each native environment, 64 and 4,096 at a time, with "
        "random actions, against gymnasium's SyncVectorEnv, EnvPool with one thread, and PufferLib's CartPole in C "
        "(float32)?"
    )
    program = "env_step_bench"
    unit = "1/s"
    better = Better.HIGHER
    targets = targets()

    def contenders(self) -> list[Contender]:
        peers = {
            GYMNASIUM: lambda: self._peer(GYMNASIUM, "sb3", "gymnasium_step.py"),  # gymnasium is among them
            ENVPOOL: lambda: self._peer(ENVPOOL, "envpool", "envpool_step.py"),
            PUFFER: lambda: self._peer(PUFFER, "puffer", "puffer_step.py"),
        }
        return self.with_peers(super().contenders(), peers)

    def _peer(self, name: str, environment: str, script: str) -> Contender:
        python = self.place.peers(environment, f"{environment}-requirements.txt")
        path = self.place.root / "bench" / "peers" / script

        def measure(size: Size) -> Sample:
            seconds = 0.5 if size is Size.FULL else 0.01
            # PufferLib leaves a link where it is imported.
            one_thread = {"OMP_NUM_THREADS": "1"}
            done = run([python, path, "--seconds", seconds], environment=one_thread, folder=self.place.scratch)
            return read_lines(done.stdout, self.unit)[name]

        return Contender(name, measure)


BENCH = EnvStep
