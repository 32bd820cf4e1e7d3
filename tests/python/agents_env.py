"""A game of PettingZoo's parallel API for the tests of the bridge: agents of several kinds that leave it at different
times, some of them with masks. One may stay away from every other game, and all may go without being told that they
end."""

import functools

import numpy as np
from gymnasium import spaces


class parallel_env:
    metadata = {"name": "race_v0", "render_fps": 10}
    possible_agents = ["hare_0", "hare_1", "tortoise"]

    def __init__(self, length=6, absent=None, ends_silently=False):
        self.length, self.absent, self.ends_silently, self.games = length, absent, ends_silently, 0

    @functools.cache
    def observation_space(self, agent):
        if agent == "tortoise":
            return spaces.Dict({"way": spaces.Box(0, 100, (2,), np.float64), "tired": spaces.Discrete(4, start=1)})
        return spaces.Box(0, 255, (3,), np.uint8)

    @functools.cache
    def action_space(self, agent):
        return spaces.MultiDiscrete([2, 3]) if agent == "tortoise" else spaces.Discrete(3)

    def shown(self, agent):
        if agent == "tortoise":
            return {"way": self.random.random(2), "tired": int(self.random.integers(1, 5))}
        return self.random.integers(0, 256, 3, dtype=np.uint8)

    def told(self, agent):
        if agent != "hare_1":
            return {}
        self.mask = np.array([1, self.steps % 2, 0], dtype=np.int8)
        return {"action_mask": self.mask}

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.games += 1
        absent = self.absent if self.games % 2 == 0 else None
        self.steps, self.agents = 0, [a for a in self.possible_agents if a != absent]
        return {a: self.shown(a) for a in self.agents}, {a: self.told(a) for a in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), (actions, self.agents)
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), (agent, action)
        if "hare_1" in actions:
            assert self.mask[actions["hare_1"]] == 1
        self.steps += 1
        stepped = list(self.agents)
        rewards = {a: float(np.sum(actions[a]) / 3 + self.steps) for a in stepped}
        done = {a: a != "tortoise" and bool(self.random.random() < 0.3) for a in stepped}
        is_last = self.steps == self.length
        late = {a: is_last and not self.ends_silently for a in stepped}
        observations = {a: self.shown(a) for a in stepped}
        infos = {a: self.told(a) for a in stepped}
        self.agents = [a for a in stepped if not (done[a] or is_last)]
        return observations, rewards, done, late, infos

    def close(self):
        pass
