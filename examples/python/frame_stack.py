"""The last four observations at once, each action for two steps (VecFrameStack, MaxAndSkipEnv)."""

import tandem

wrappers = {"frame_skip": 2, "frame_stack": 4}
run = tandem.train(env="Pendulum-v1", total_steps=10_000, env_wrappers=wrappers)
envs = tandem.make_vec("Pendulum-v1", num_envs=4, env_wrappers=wrappers)
action, _ = tandem.load(run).predict(envs.reset(seed=0)[0])
