"""Goals that were reached by chance teach as well (HerReplayBuffer)."""

import tandem

run = tandem.train(env="BitFlipping-v0", algo="dqn", total_steps=5_000, dqn={"hindsight": "future"})
print(run.metrics["episode_return_mean"][-1])
