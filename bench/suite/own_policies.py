"""bench/rl/own_policy_bench.cc: policies of one's own, which have no kernels."""

from harness.compiled import CompiledBench
from harness.model import Better


class OwnPolicies(CompiledBench):
    name = "own_policies"
    question = (
        "How many environment steps per second does PPO make on two replicas with policies of one's own (a residual "
        "MLP of 128 units, a transformer of two layers; 8 environments, 128 steps, 4 passes of 4 minibatches), with "
        "the loss in one pass over its rows, and by tensor operations?"
    )
    program = "own_policy_bench"
    unit = "steps/s"
    better = Better.HIGHER
    targets = {"residual MLP": {"by operations": 1}, "transformer": {"by operations": 1}}
    inside = ("tandem", "by operations")


BENCH = OwnPolicies
