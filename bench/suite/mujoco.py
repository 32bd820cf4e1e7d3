"""bench/env/mujoco_bench.cc: MuJoCo's tasks against a bare loop of mj_step()."""

from harness.compiled import CompiledBench
from harness.model import Better

OURS, BARE = "tandem", "mj_step"
NAMES = ("Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5")


class Mujoco(CompiledBench):
    name = "mujoco"
    question = (
        "How many steps per second does one thread make with eight environments of a MuJoCo task, against a bare loop "
        "of mj_step() with the same number of frames a step, from the same states with the same actions?"
    )
    program = "mujoco_bench"
    unit = "1/s"
    better = Better.HIGHER
    inside = (OURS, BARE)
    targets = {name: {BARE: 0.95} for name in NAMES}


BENCH = Mujoco
