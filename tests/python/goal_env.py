"""Environments with goals, as Gymnasium-Robotics' GoalEnv has them: Line-v0, whose compute_reward() takes any number of
goals; Exits-v0, whose ends its process; Ended-v0, which also ends at its goal; Told-v2, which wants the info of the
step; Single-v0, which takes one goal alone. A point walks on a line."""

import os

import gymnasium
import numpy as np
from gymnasium import spaces


class Line(gymnasium.Env):
    def __init__(self):
        place = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.observation_space = spaces.Dict(observation=place, achieved_goal=place, desired_goal=place)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def seen(self):
        return {"observation": self.place.copy(), "achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = np.zeros(1), self.np_random.uniform(-1, 1, 1)
        return self.seen(), {}

    def step(self, action):
        self.place = self.place + 0.2 * action
        info = {"weight": 1.0}
        return self.seen(), self.compute_reward(self.place, self.goal, info), False, False, info

    def compute_reward(self, achieved, desired, info):
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.1).astype(np.float32)


class Ended(Line):
    def compute_terminated(self, achieved, desired, info):
        return bool(np.linalg.norm(achieved - desired) <= 0.1)


class Told(Line):
    def compute_reward(self, achieved, desired, info):
        return info["weight"] * super().compute_reward(achieved, desired, info)


class Single(Line):
    def compute_reward(self, achieved, desired, info):
        return float(np.linalg.norm(achieved - desired))


class Twice(gymnasium.Wrapper):
    """Pays the double, also for goals."""

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, 2 * reward, terminated, truncated, info

    def compute_reward(self, achieved, desired, info):
        return 2 * self.env.unwrapped.compute_reward(achieved, desired, info)


class Exits(Line):
    """Ends its process where it is asked for goals."""

    def compute_reward(self, achieved, desired, info):
        if np.ndim(achieved) > 1:
            os._exit(3)
        return super().compute_reward(achieved, desired, info)


ALL = {"Exits-v0": Exits, "Line-v0": Line, "Ended-v0": Ended, "Told-v2": Told, "Single-v0": Single}
for name, its in ALL.items():
    gymnasium.register(name, entry_point=its, max_episode_steps=20)
