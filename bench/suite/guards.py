"""bench/sync/guards_bench.cc: what DataParallel's search for mistakes takes of a step."""

from harness.compiled import CompiledBench
from harness.model import Better


class Guards(CompiledBench):
    name = "guards"
    question = "How many us does a step of DataParallel take, and how many of them do its guards against mistakes take?"
    program = "guards_bench"
    unit = "us"
    better = Better.LOWER
    inside = ("once", "twice", "guards")


BENCH = Guards
