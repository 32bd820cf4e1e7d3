"""DQN on CartPole-v1 with small networks and few updates."""

from harness.off_policy_training import SB3, SB3_NAME, SBX, SBX_NAME, OffPolicySettings
from harness.training import Expected
from harness.training_bench import TrainingBench


class DqnCartpole(TrainingBench):
    name = "dqn_cartpole"
    question = (
        "How many environment steps per second does DQN make on CartPole-v1 (networks of 64 and 64 units, 128 rows, an "
        "update every 4 steps), against peers with the same settings at their best number of threads?"
    )
    settings = OffPolicySettings(
        algo="dqn",
        env="CartPole-v1",
        total_steps=40_000,
        rollout_steps=1000,
        hidden=(64, 64),
        learning_rate=1e-3,
        batch_size=128,
        train_every=4,
        learning_starts=1000,
        replay_size=50_000,
        tau=1,
        target_every=500,
    )
    expected = Expected(lowest_return=1, highest_return=500, learns_after=40_000, learned_return=40)
    peers = {SB3_NAME: SB3, SBX_NAME: SBX}
    at_least_times = {SB3_NAME: 15}


BENCH = DqnCartpole
