"""PPO on HalfCheetah-v5: a simulator that costs as much as the learning."""

from harness.training import Expected, Settings
from harness.training_bench import SB3, SB3_NAME, TrainingBench


class PpoMujoco(TrainingBench):
    name = "ppo_mujoco"
    question = (
        "How many environment steps per second does PPO make on HalfCheetah-v5 (8 environments, 256 steps, 10 passes "
        "of minibatches of 64), against stable-baselines3 with the same settings at its best number of threads?"
    )
    settings = Settings(
        env="HalfCheetah-v5",
        total_steps=40_960,
        num_envs=8,
        rollout_steps=256,
        epochs=10,
        minibatch_size=64,
        learning_rate=3e-4,
        gamma=0.99,
        entropy_coef=0.0,
        clip_range_value=None,  # stable-baselines3 clips no values by itself
    )
    # In so few steps neither learns to run; random actions cost about 300 an episode.
    expected = Expected(lowest_return=-1500, highest_return=3000, learns_after=40_000, learned_return=-600)
    time_limit = "bootstrap"
    peers = {SB3_NAME: SB3}
    at_least_times = {SB3_NAME: 12}


BENCH = PpoMujoco
