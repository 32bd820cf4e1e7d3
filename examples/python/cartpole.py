"""CartPole, natively: train, evaluate, act."""

import tandem

run = tandem.train(env="CartPole-v1", total_steps=50_000, devices="cpu:2", seed=1)
policy = tandem.load(run)
print(tandem.evaluate(policy, episodes=100))
envs = tandem.make_vec("CartPole-v1", num_envs=8)
observation, _ = envs.reset(seed=0)
for _ in range(100):
    action, _ = policy.predict(observation)
    observation, *_ = envs.step(action)
