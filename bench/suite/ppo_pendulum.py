"""PPO on Pendulum-v1: a normal distribution over actions, and many small minibatches."""

from harness.training import Expected, Settings
from harness.training_bench import SB3, SB3_NAME, TrainingBench


class PpoPendulum(TrainingBench):
    name = "ppo_pendulum"
    question = (
        "How many environment steps per second does PPO make on Pendulum-v1 (normal head, 4 environments, 1024 steps, "
        "10 passes of minibatches of 64), against stable-baselines3 with the same settings at its best number of "
        "threads?"
    )
    settings = Settings(
        env="Pendulum-v1",
        total_steps=120_000,
        num_envs=4,
        rollout_steps=1024,
        epochs=10,
        minibatch_size=64,
        learning_rate=1e-3,
        gamma=0.9,
        entropy_coef=0.0,
        clip_range_value=None,  # stable-baselines3 clips no values by itself
    )
    # Left alone the pendulum costs about 1200 an episode.
    expected = Expected(lowest_return=-2000, highest_return=0, learns_after=100_000, learned_return=-500)
    time_limit = "bootstrap"
    peers = {SB3_NAME: SB3}
    at_least_times = {SB3_NAME: 4}


BENCH = PpoPendulum
