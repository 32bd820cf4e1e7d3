"""bench/rl/replay_bench.cc: what a replay part costs a training."""

from harness.compiled import CompiledBench
from harness.model import Better


class Replay(CompiledBench):
    name = "replay"
    question = (
        "How many microseconds does it take to insert about 1,000 rows of HalfCheetah, to draw 256 of 10,000 and of "
        "1,000,000 of them, uniformly and by priority, to draw 32 stacks of pictures, and to take a snapshot?"
    )
    program = "replay_bench"
    unit = "us"
    better = Better.LOWER
    limits = {"draw 256 of 10,000": 20, "insert 1,008 rows, 1 at a time": 100, "insert 1,008 rows, 16 at a time": 100}


BENCH = Replay
