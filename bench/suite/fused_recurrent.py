"""bench/rl/fused_recurrent_bench.cc: the fused recurrent kernels of PPO beside autograd and the core's peak."""

from harness.compiled import CompiledBench
from harness.model import Better


class FusedRecurrent(CompiledBench):
    name = "fused_recurrent"
    question = (
        "How many floating-point operations per second does one core make of loss and gradients of a PPO minibatch of "
        "sequences, with an LSTM or a GRU, in fused kernels, with autograd, and at most?"
    )
    program = "fused_recurrent_bench"
    unit = "GFLOP/s"
    better = Better.HIGHER
    targets = {"lstm 64, 8 x 32": {"autograd": 4, "peak": 0.4}}
    inside = ("tandem", "autograd", "peak")


BENCH = FusedRecurrent
