"""bench/sync/step_bench.cc on two ranks, and torch's DistributedDataParallel over Gloo on the same networks."""

from harness.compiled import read_lines
from harness.model import Bench, Better, Contender, Metric, Sample, Size
from harness.process import run

NETWORKS = ("1.1M", "10.6M", "25.3M")


class DataParallelStep(Bench):
    name = "data_parallel_step"
    question = (
        "How many ms does a training step take longer on two ranks than alone, for MLPs on 8 rows, against torch's DDP?"
    )

    def contenders(self) -> list[Contender]:
        return self.with_peers([Contender("tandem", self._tandem)], {"torch DDP": self._torch_ddp})

    def _torch_ddp(self) -> Contender:
        self._python = self.place.peers("sb3", "sb3-requirements.txt")  # torch is among them
        return Contender("torch DDP", self._ddp)

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        networks = NETWORKS if size is Size.FULL else ("0.1M",)
        added = [Metric(f"{name} parameters, added", "ms", Better.LOWER, at_least_times={"torch DDP": 5})
                 for name in networks]
        whole = [Metric(f"{name} parameters, a step", "ms", Better.LOWER) for name in networks]
        self.metrics = (*added, *whole)
        return super().round(contenders, size)

    def _tandem(self, size: Size) -> Sample:
        programs = self.place.programs
        smoke = ["--smoke"] if size is Size.SMOKE else []
        done = run([programs / "tandem", "launch", "--ranks", 2, "--", programs / "step_bench", *smoke])
        lines = [line.removeprefix("[0] ") for line in done.stdout.splitlines() if line.startswith("[0] {")]
        return read_lines("\n".join(lines), "ms")["tandem"]

    def _ddp(self, size: Size) -> Sample:
        script = self.place.root / "bench" / "peers" / "ddp_step.py"
        smoke = ["--smoke"] if size is Size.SMOKE else []
        done = run([self._python, script, *smoke], environment={"OMP_NUM_THREADS": "1"})
        return read_lines(done.stdout, "ms")["torch DDP"]


BENCH = DataParallelStep
