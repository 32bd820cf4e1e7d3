"""Functions that are called while a run trains: numbers, an early end, checkpoints."""

import tandem

returns = []


def watch(line):
    returns.append(line["episode_return_mean"])
    return (returns[-1] or 0) < 150  # False ends the run in order


run = tandem.train(
    env="CartPole-v1",
    total_steps=200_000,
    on_update=watch,
    on_checkpoint=lambda saved: print("saved", saved["folder"]),
)
print(run.summary["end"], "after", len(returns), "updates")
tandem.resume(run, total_steps=run.summary["env_steps"] + 20_000)
