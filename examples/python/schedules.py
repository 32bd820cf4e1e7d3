"""A learning rate that falls to 0, and a clip range that jumps."""

import tandem

tandem.train(
    env="CartPole-v1",
    total_steps=20_000,
    ppo={"learning_rate_schedule": "linear", "clip_range_schedule": "piecewise(0: 0.2, 0.5: 0.2, 0.5: 0.1)"},
)
