"""Three seeds, and the mean over them."""

import numpy as np

import tandem

runs = [tandem.train(env="CartPole-v1", total_steps=10_000, seed=seed) for seed in (1, 2, 3)]
last = np.array([run.metrics["episode_return_mean"][-1] for run in runs])
print(f"{last.mean():.1f} +- {last.std(ddof=1):.1f}")
