"""PPO on CartPole-v1 with a larger batch, where peers spend less of their time in dispatch."""

from harness.training import Expected, Settings
from harness.training_bench import (
    CLEANRL,
    CLEANRL_NAME,
    SAMPLE_FACTORY,
    SAMPLE_FACTORY_NAME,
    SB3,
    SB3_NAME,
    Peer,
    TrainingBench,
)

# PufferLib's CartPole ends an episode after 200 steps.
PUFFER = Peer(
    "puffer",
    "puffer_ppo.py",
    ("pufferlib", "torch"),
    note="its own trainer and C environment, whose episodes end after 200 steps",
    expected=Expected(lowest_return=1, highest_return=200, learns_after=300_000, learned_return=50),
)


class Ppo64Envs(TrainingBench):
    name = "ppo_64_envs"
    question = (
        "How many environment steps per second does PPO make on CartPole-v1 with 64 environments, 128 steps and "
        "minibatches of 2048, against peers with the same settings at their best number of threads?"
    )
    settings = Settings(total_steps=1_000_000, num_envs=64, minibatch_size=2048)
    expected = Expected(lowest_return=1, highest_return=500, learns_after=300_000, learned_return=50)
    peers = {SB3_NAME: SB3, CLEANRL_NAME: CLEANRL, "pufferlib": PUFFER, SAMPLE_FACTORY_NAME: SAMPLE_FACTORY}
    at_least_times = {name: 4 for name in peers}


BENCH = Ppo64Envs
