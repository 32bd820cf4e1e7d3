"""bench/rl/fused_ppo_bench.cc: the fused kernels of PPO beside autograd and the core's peak."""

from harness.compiled import CompiledBench
from harness.model import Better


class FusedPpo(CompiledBench):
    name = "fused_ppo"
    question = (
        "How many floating-point operations per second does one core make of loss and gradients of a PPO minibatch, "
        "in fused kernels, with autograd, and at most?"
    )
    program = "fused_ppo_bench"
    unit = "GFLOP/s"
    better = Better.HIGHER
    targets = {
        "64x64, 256 rows": {"autograd": 4},
        "256x256 normal, 2048 rows": {"peak": 0.6},
    }
    inside = ("tandem", "autograd", "peak")


BENCH = FusedPpo
