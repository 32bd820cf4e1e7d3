"""A run that goes on, with another learning rate."""

import tandem

tandem.train(env="CartPole-v1", total_steps=10_000, run_dir="runs/pole")
run = tandem.resume("runs/pole", total_steps=20_000, ppo={"learning_rate": 1e-4})
print(run.metrics["env_steps"][-1])
