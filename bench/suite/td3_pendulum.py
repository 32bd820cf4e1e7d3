"""TD3 on Pendulum-v1 with networks of 256 and 256 units."""

from harness.off_policy_training import RLTOOLS, RLTOOLS_NAME, SB3, SB3_NAME, SBX, SBX_NAME, OffPolicySettings
from harness.training import Expected
from harness.training_bench import TrainingBench


class Td3Pendulum(TrainingBench):
    name = "td3_pendulum"
    question = (
        "How many environment steps per second does TD3 make on Pendulum-v1 (networks of 256 and 256 units, 256 rows, "
        "an update a step, two environments), against peers with the same settings at their best number of threads?"
    )
    settings = OffPolicySettings(
        algo="td3", env="Pendulum-v1", total_steps=6_000, num_envs=2, gradient_steps=2, replicas=2, learning_rate=1e-3
    )
    expected = Expected(lowest_return=-1900, highest_return=0, learns_after=100_000, learned_return=-300)
    peers = {SB3_NAME: SB3, SBX_NAME: SBX, RLTOOLS_NAME: RLTOOLS}
    at_least_times = {SB3_NAME: 1.8}


BENCH = Td3Pendulum
