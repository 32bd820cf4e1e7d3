"""SAC on HalfCheetah-v5 with the networks of the literature: nearly all of it is arithmetic."""

from harness.off_policy_training import SAC_PEERS, SB3_NAME, OffPolicySettings
from harness.training import Expected
from harness.training_bench import TrainingBench


class SacMujoco(TrainingBench):
    name = "sac_mujoco"
    question = (
        "How many environment steps per second does SAC make on HalfCheetah-v5 (networks of 256 and 256 units, 256 "
        "rows, an update a step, two environments, so that each core has one), against peers with the same settings at "
        "their best number of threads?"
    )
    settings = OffPolicySettings(
        algo="sac",
        env="HalfCheetah-v5",
        total_steps=8_000,
        num_envs=2,
        gradient_steps=2,
        learning_starts=1_000,
        replicas=2,
        episode_steps=2_000,
    )
    # In so few steps nobody learns to run; random actions cost about 300 an episode.
    expected = Expected(lowest_return=-1500, highest_return=3000, learns_after=100_000, learned_return=1000)
    computes = ("bfloat16", "bfloat16_tiles")
    peers = SAC_PEERS
    at_least_times = {SB3_NAME: 2}


BENCH = SacMujoco
