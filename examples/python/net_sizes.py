"""Other layers, another activation."""

import tandem

tandem.train(env="CartPole-v1", total_steps=10_000, policy={"hidden": [128, 64], "activation": "relu"})
