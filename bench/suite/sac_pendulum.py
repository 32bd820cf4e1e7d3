"""SAC on Pendulum-v1 with small networks: what a peer's time goes into is not arithmetic."""

from harness.off_policy_training import SAC_PEERS, SB3_NAME, OffPolicySettings
from harness.training import Expected
from harness.training_bench import TrainingBench


class SacPendulum(TrainingBench):
    name = "sac_pendulum"
    question = (
        "How many environment steps per second does SAC make on Pendulum-v1 (networks of 64 and 64 units, 256 rows, an "
        "update a step, one environment), against peers with the same settings at their best number of threads?"
    )
    settings = OffPolicySettings(
        algo="sac", env="Pendulum-v1", total_steps=10_000, hidden=(64, 64), learning_rate=1e-3, learning_starts=256
    )
    expected = Expected(lowest_return=-1900, highest_return=0, learns_after=10_000, learned_return=-900)
    peers = SAC_PEERS
    at_least_times = {SB3_NAME: 8}


BENCH = SacPendulum
