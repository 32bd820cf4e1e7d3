"""Evaluation while it trains, the best policy kept, an end once it is good enough (EvalCallback)."""

import tandem

run = tandem.train(
    env="CartPole-v1", total_steps=100_000, eval={"every_steps": 10_000, "episodes": 10, "stop_at": 400}, seed=1
)
best = tandem.load(run.folder / "best")
print(best.updates, tandem.evaluate(best, episodes=20))
