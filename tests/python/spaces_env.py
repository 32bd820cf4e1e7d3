"""Environments for the tests of the bridge: nested spaces of all types, and some that a bridge has to refuse."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Nested(gymnasium.Env):
    """Shows leaves of many types. `of_actions` says what it takes."""

    def __init__(self, of_actions="choices"):
        self.observation_space = spaces.Dict({
            "pixels": spaces.Box(0, 255, (2, 3), np.uint8),
            "near": spaces.Dict({
                "speed": spaces.Box(-np.inf, np.inf, (2,), np.float64), "left": spaces.Discrete(5, start=-2),
            }),
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


class Masked(gymnasium.Env):
    """Has a mask, which leaves one option at least, and takes nothing else."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 100, (1,), np.float32)
        self.action_space = spaces.Discrete(4, start=3)

    def shown(self):
        self.mask = self.np_random.integers(0, 2, 4, dtype=np.int8)
        self.mask[self.np_random.integers(0, 4)] = 1
        return np.array([self.steps], dtype=np.float32), {"action_mask": self.mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.shown()

    def step(self, action):
        assert self.mask[action - 3] == 1, (action, self.mask)
        self.steps += 1
        return *self.shown()[:1], float(action), bool(self.np_random.random() < 0.3), False, {"action_mask": self.mask}


class Forgetful(Masked):
    """Has episodes of two steps, and no mask from the second one on."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.episodes += 1
        return (observation, info) if self.episodes == 1 else (observation + 50, {})

    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self.steps == 2, False, info


def together(env):
    """Gymnasium's own vector environment as one that a package brings."""
    def make(num_envs, autoreset_mode="NextStep", max_episode_steps=None, **keywords):
        def one():
            return gymnasium.wrappers.TimeLimit(env(**keywords), max_episode_steps)
        return gymnasium.vector.SyncVectorEnv([one] * num_envs, autoreset_mode=autoreset_mode)
    return make


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


for env in (Nested, Masked, Forgetful, Worded, Parted):
    gymnasium.register(f"{env.__name__}-v0", entry_point=env, vector_entry_point=together(env), max_episode_steps=15)
