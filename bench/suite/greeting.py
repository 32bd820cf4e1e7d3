"""bench/comm/greeting_bench.cc."""

from harness.compiled import CompiledBench
from harness.model import Better


class Greeting(CompiledBench):
    name = "greeting"
    question = (
        "How long does a member take to come to another one's door, where both ends prove that they belong to the run, "
        "against a connection whose ends prove nothing? Two ranks make four connections at their start."
    )
    program = "greeting_bench"
    unit = "us"
    better = Better.LOWER
    inside = ("tandem", "no greeting")
    # 2 ms for the four of two ranks. Encryption is beyond authentication, and has no limit.
    limits = {"one connection within the host": 500, "one connection over TCP": 500}


BENCH = Greeting
