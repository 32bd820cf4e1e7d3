"""An environment with numbers in its info: Told-v0, one by one, and Told-v1, stepped as one. Environments begin with
other heights, and their episodes have three steps."""

import gymnasium
import numpy as np
from gymnasium import spaces
from spaces_env import together


class Told(gymnasium.Env):
    def __init__(self):
        self.observation_space, self.action_space = spaces.Box(0, 1e9, (1,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start = seed % 10 if seed is not None else self.start + 1
        self.steps = 0
        return np.full(1, self.start, np.float32), {"height": 1000.0}

    def step(self, action):
        self.steps += 1
        ends = self.steps == 3
        info = {"height": self.start * self.steps, "name": "told", "odd": float("nan")}
        if self.steps > 1:
            info["late"] = np.float32(self.steps)
        if ends:
            info["is_success"] = self.start % 2 == 0
        return np.full(1, self.start, np.float32), 1.0, ends, False, info


gymnasium.register("Told-v0", entry_point=Told, max_episode_steps=15)
gymnasium.register("Told-v1", entry_point=Told, vector_entry_point=together(Told), max_episode_steps=15)
