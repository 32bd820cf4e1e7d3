"""An environment whose pictures say when they were drawn: Drawn-v0, with episodes of three steps. `picture` spoils
them."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Drawn(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    made = 0

    def __init__(self, render_mode=None, picture="good"):
        self.render_mode, self.picture = render_mode, picture
        self.observation_space, self.action_space = spaces.Box(0, 9, (1,), np.float32), spaces.Discrete(2)
        self.episodes, self.number = 0, Drawn.made
        Drawn.made += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes, self.steps = self.episodes + 1, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps == 3, False, {}

    def render(self):
        assert self.render_mode == "rgb_array"
        if self.picture == "none":
            return None
        if self.picture == "grey":
            return np.zeros((4, 6), np.uint8)
        if self.picture == "wide":
            return np.zeros((1, 5000, 3), np.uint8)
        pixels = np.zeros((4, 6, 3), np.uint8)
        pixels[0, 0] = self.number, self.episodes, self.steps
        return pixels


gymnasium.register("Drawn-v0", entry_point=Drawn)
