"""bench/sync/step_bench.cc on two ranks, and torch's DistributedDataParallel over Gloo on the same networks."""

from harness.compiled import read_lines
from harness.model import Bench, Better, Contender, Metric, Sample, Size
from harness.process import run

NETWORKS = ("1.1M", "10.6M", "25.3M")
# A process of nice 10 in the session of the ranks, beside which alone its niceness counts.
IN_COMPANY = ["sh", "-c", 'nice -n 10 sh -c "while :; do :; done" & "$@"; status=$?; kill $!; exit $status', "sh"]


class DataParallelStep(Bench):
    name = "data_parallel_step"
    question = (
        "How many ms does a training step take longer on two ranks than alone, for MLPs on 8 rows, against torch's "
        "DDP? And which percentage of its steps does it lose beside a busy process of nice 10, which takes half of two "
        "cores at most?"
    )

    def contenders(self) -> list[Contender]:
        return self.with_peers([Contender("tandem", self._tandem)], {"torch DDP": self._torch_ddp})

    def _torch_ddp(self) -> Contender:
        self._python = self.place.peers("sb3", "sb3-requirements.txt")  # torch is among them
        return Contender("torch DDP", self._ddp)

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        networks = NETWORKS if size is Size.FULL else ("0.1M",)
        added = [
            Metric(f"{name} parameters, added", "ms", Better.LOWER, at_least_times={"torch DDP": 5})
            for name in networks
        ]
        whole = [Metric(f"{name} parameters, a step", "ms", Better.LOWER) for name in networks]
        lost = [Metric(f"{name} parameters, lost in company", "%", Better.LOWER, at_most=50) for name in networks]
        self.metrics = (*added, *whole, *lost)
        return super().round(contenders, size)

    def _tandem(self, size: Size) -> Sample:
        sample, in_company = self._two_ranks(size, []), self._two_ranks(size, IN_COMPANY)
        for case, step in list(sample.values.items()):
            if case.endswith(", a step"):
                lost = 100 * (1 - step / in_company.values[case])
                sample.values[case.removesuffix("a step") + "lost in company"] = lost
        return sample

    def _two_ranks(self, size: Size, company: list[str]) -> Sample:
        programs = self.place.programs
        smoke = ["--smoke"] if size is Size.SMOKE else []
        done = run([*company, programs / "tandem", "launch", "--ranks", 2, "--", programs / "step_bench", *smoke])
        lines = [line.removeprefix("[0] ") for line in done.stdout.splitlines() if line.startswith("[0] {")]
        return read_lines("\n".join(lines), "ms")["tandem"]

    def _ddp(self, size: Size) -> Sample:
        script = self.place.root / "bench" / "peers" / "ddp_step.py"
        smoke = ["--smoke"] if size is Size.SMOKE else []
        done = run([self._python, script, *smoke], environment={"OMP_NUM_THREADS": "1"})
        return read_lines(done.stdout, "ms")["torch DDP"]


BENCH = DataParallelStep
