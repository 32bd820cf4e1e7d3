"""bench/env/isolated_envs_bench.cc: env groups in processes of their own against the same in the training's."""

from harness.compiled import CompiledBench
from harness.model import Better

ISOLATED, INSIDE = "isolated", "in this process"


class IsolatedEnvs(CompiledBench):
    name = "isolated_envs"
    question = (
        "How many steps per second do two shards make when their env groups live in processes of their own "
        "(isolate_envs), against the same groups in this process? Slow-v0 computes for 20 us a step."
    )
    program = "isolated_envs_bench"
    unit = "1/s"
    better = Better.HIGHER
    inside = (ISOLATED, INSIDE)
    targets = {"Slow-v0 x 16": {INSIDE: 0.9}}


BENCH = IsolatedEnvs
