"""An environment of one's own, in Python: stepped in worker processes, learned by the core."""

import gymnasium
import numpy as np

import tandem


class Corridor(gymnasium.Env):
    """Walk to the right end; each step costs."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=10):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.shown(), {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        return self.shown(), -0.1, self.place == self.length, False, {}

    def shown(self):
        return np.array([self.place / self.length], np.float32)


options = {"length": 6}
run = tandem.train(env=Corridor, env_options=options, env_wrappers={"time_limit": 100}, total_steps=20_000, seed=1)
print(tandem.evaluate(tandem.load(run), episodes=20))
