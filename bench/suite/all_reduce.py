"""bench/comm/all_reduce_bench.cc."""

from harness.compiled import CompiledBench
from harness.model import Better


class AllReduce(CompiledBench):
    name = "all_reduce"
    question = "How long do the replicas of a process and the ranks of a host take to sum a vector, against one memcpy of it?"
    program = "all_reduce_bench"
    unit = "us"
    better = Better.LOWER
    inside = ("tandem", "memcpy")


BENCH = AllReduce
