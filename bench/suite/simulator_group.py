"""bench/env/simulator_group_bench.cc: a simulator of many environments against the same one as single environments."""

from harness.compiled import CompiledBench
from harness.model import Better

AT_ONCE, ONE_BY_ONE = "all at once", "one by one"


class SimulatorGroup(CompiledBench):
    name = "simulator_group"
    question = (
        "How many steps per second does one thread make with a plugin that steps 64 or 1,024 environments at once "
        "(examples/group_env), against the same simulator as a struct that is one environment?"
    )
    program = "simulator_group_bench"
    unit = "1/s"
    better = Better.HIGHER
    inside = (AT_ONCE, ONE_BY_ONE)
    targets = {f"Parking-v0 x {count}": {ONE_BY_ONE: 2.0} for count in (64, 1024)}


BENCH = SimulatorGroup
