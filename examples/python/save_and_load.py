"""A policy that is loaded again and acts, with what it remembers."""

import tandem

tandem.train(env="RepeatPrevious-v0", total_steps=10_000, policy={"recurrent": "lstm"}, run_dir="runs/memory")

policy, state = tandem.load("runs/memory"), None
envs = tandem.make_vec("RepeatPrevious-v0", num_envs=4)
observation, _ = envs.reset(seed=0)
for _ in range(10):
    action, state = policy.predict(observation, state)
    observation, *_ = envs.step(action)
