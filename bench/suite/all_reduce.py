"""bench/comm/all_reduce_bench.cc, and the same sums by torch.distributed's Gloo and by Open MPI."""

import os
import shutil
import subprocess

from harness.compiled import CompiledBench, read_lines
from harness.model import Better, Contender, Sample, Size, Unavailable
from harness.process import run


class AllReduce(CompiledBench):
    name = "all_reduce"
    question = (
        "How long do replicas of a process, ranks of a host and ranks over TCP take to sum a vector, against one "
        "memcpy of it, torch.distributed and Open MPI?"
    )
    program = "all_reduce_bench"
    unit = "us"
    better = Better.LOWER
    inside = ("tandem", "memcpy")
    limits = {"2 ranks x 8 bytes": 10, "4 ranks x 8 bytes": 15} if len(os.sched_getaffinity(0)) >= 2 else {}
    targets = {
        "2 ranks x 4 MiB": {"gloo": 8},
        "2 ranks x 40 MiB": {"gloo": 5, "memcpy": 1 / 1.5},
        **{f"2 ranks in company x {size}": {"gloo": 4} for size in ("8 bytes", "4 KiB", "64 KiB")},
    }

    def contenders(self) -> list[Contender]:
        return self.with_peers(super().contenders(), {"gloo": self._gloo, "open mpi": self._open_mpi})

    def _gloo(self) -> Contender:
        python = self.place.peers("sb3", "sb3-requirements.txt")  # torch is among them
        return self._turn([python, self.place.root / "bench" / "peers" / "gloo_all_reduce.py"], "gloo")

    def _open_mpi(self) -> Contender:
        if not (shutil.which("mpicc") and shutil.which("mpirun")):
            raise Unavailable("mpicc and mpirun are not here (Debian: openmpi-bin and libopenmpi-dev)")
        program = self.place.scratch / "mpi_all_reduce"
        source = self.place.root / "bench" / "peers" / "mpi_all_reduce.c"
        done = subprocess.run(["mpicc", "-O2", source, "-o", program], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"mpicc failed: {done.stderr.strip().splitlines()[-1]}")
        return self._turn(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", program], "open mpi")

    def _turn(self, command: list, name: str) -> Contender:
        def measure(size: Size) -> Sample:
            smoke = ["--smoke"] if size is Size.SMOKE else []
            done = run([*command, *smoke], environment={"OMP_NUM_THREADS": "1"})
            return read_lines(done.stdout, self.unit)[name]

        return Contender(name, measure)


BENCH = AllReduce
