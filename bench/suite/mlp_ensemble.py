"""bench/rl/mlp_ensemble_bench.cc: the fused kernels of off-policy updates beside autograd and the core's peak."""

from harness.compiled import CompiledBench
from harness.model import Better


class MlpEnsemble(CompiledBench):
    name = "mlp_ensemble"
    question = (
        "At which rate does one core make the products of an off-policy update, two critics forward and backward and a "
        "whole update of SAC, in fused kernels, with autograd, as LibTorch's products alone, and at most?"
    )
    program = "mlp_ensemble_bench"
    unit = "GFLOP/s"
    better = Better.HIGHER
    targets = {
        "critics 64x64, 256 rows": {"autograd": 4},
        "critics 256x256, 256 rows": {"peak": 0.6},
        "update 256x256, 256 rows": {"peak": 0.5},
    }
    inside = ("tandem", "autograd", "mm", "peak")


BENCH = MlpEnsemble
