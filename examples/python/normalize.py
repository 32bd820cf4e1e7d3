"""Observations and rewards brought to one scale (VecNormalize); the policy keeps the statistics."""

import tandem

run = tandem.train(env="Pendulum-v1", total_steps=20_000, normalize={"observations": True, "rewards": True})
print(tandem.evaluate(tandem.load(run), episodes=10))
