"""Environments for the tests of the bridge: nested spaces of all types, and some that a bridge has to refuse."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Nested(gymnasium.Env):
    """Shows leaves of many types. `of_actions` says what it takes."""

    def __init__(self, of_actions="choices"):
        self.observation_space = spaces.Dict({
            "pixels": spaces.Box(0, 255, (2, 3), np.uint8),
            "near": spaces.Dict({"speed": spaces.Box(-np.inf, np.inf, (2,), np.float64), "left": spaces.Discrete(5, start=-2)}),
            "pair": spaces.Tuple((spaces.MultiDiscrete([3, 4], start=[1, 0]), spaces.Box(-5, 5, (), np.int16))),
            "flags": spaces.MultiBinary(4),
            "seen": spaces.Box(0, 1, (3,), np.bool_),
        })
        self.action_space = {
            "choices": spaces.MultiDiscrete([3, 4], start=[1, -1]),
            "binary": spaces.MultiBinary((2, 2)),
            "integers": spaces.Box(np.array([-2, 0]), np.array([2, 9]), dtype=np.int32),
        }[of_actions]

    def observation(self):
        random = self.np_random
        return {
            "pixels": random.integers(0, 256, (2, 3), dtype=np.uint8),
            "near": {"speed": random.normal(size=2), "left": int(random.integers(-2, 3))},
            "pair": (np.array([random.integers(1, 4), random.integers(0, 4)]), random.integers(-5, 6)),
            "flags": random.integers(0, 2, 4, dtype=np.int8),
            "seen": random.integers(0, 2, 3).astype(bool),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observation(), float(np.sum(action)), bool(self.np_random.random() < 0.2), False, {}


class Worded(gymnasium.Env):
    """Has a leaf of text."""

    def __init__(self):
        self.observation_space = spaces.Dict({"way": spaces.Tuple((spaces.Text(10), spaces.Discrete(3)))})
        self.action_space = spaces.Discrete(2)


class Parted(gymnasium.Env):
    """Takes actions of parts."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 1, (2,))
        self.action_space = spaces.Dict({"a": spaces.Discrete(2)})


for env in (Nested, Worded, Parted):
    gymnasium.register(f"{env.__name__}-v0", entry_point=env, max_episode_steps=15)
