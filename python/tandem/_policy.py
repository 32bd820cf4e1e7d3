"""Trained policies: what they do, and how well."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tandem._env_names import core_name, own_python
from tandem._errors import ConfigError
from tandem._load import core
from tandem._run import NamedCode, Run
from tandem._settings import paths_of
from tandem._spaces import action_dtype, action_of, action_shape, leaves_of


@dataclass
class Evaluation:
    """Episodes that were played, in their order."""

    returns: np.ndarray
    lengths: np.ndarray
    #: Of the environment's own metrics the values of the episodes that ended, by name.
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    #: Episodes that had not ended after the most steps.
    cut_short: int = 0

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())

    def __repr__(self) -> str:
        return f"{len(self.returns)} episodes: return {self.mean:.4g} +- {self.std:.4g}"


class Policy:
    """A policy of a run or of a checkpoint, on the CPU, with the normaliser that it was trained with.

    Safe from several threads, whose calls take turns.
    """

    def __init__(
        self, source: "str | os.PathLike[str]", name: str = "", named: NamedCode = NamedCode(), *, seed: int = 0
    ):
        self._core = core().Policy(os.fspath(source), name, list(named.plugins), named.python, seed)
        self._spec = self._core.spec
        self._state_size: int = self._core.state_size

    def __repr__(self) -> str:
        return f"tandem.Policy({self._core.folder!r})"

    @property
    def env(self) -> str:
        """The environment that it was trained on."""
        return str(self._core.env)

    @property
    def updates(self) -> int:
        return int(self._core.updates)

    @property
    def state_size(self) -> int:
        """Elements of what it remembers from step to step; 0: nothing."""
        return self._state_size

    def predict(
        self,
        obs: Any,
        state: "np.ndarray | None" = None,
        mask: "np.ndarray | None" = None,
        deterministic: bool = True,
    ) -> "tuple[Any, np.ndarray | None]":
        """The action for an observation, or those for many, and what the policy remembers afterwards.

        `obs`: as the run's environment shows it, behind its wrappers; a dict or tuple of arrays where there are
        several. `state`: what the call before returned, and None at the begin of an episode. `mask`: of discrete
        actions those that are allowed, not zero. `deterministic`: the most probable action; else one that is drawn,
        by the seed of load().
        """
        leaves = leaves_of(obs, self._spec["leaves"])
        is_one = leaves[0].ndim == len(self._spec["leaves"][0]["shape"])
        rows = 1 if is_one else len(leaves[0])
        if any(
            (leaf.ndim == len(its["shape"])) != is_one or (not is_one and len(leaf) != rows)
            for leaf, its in zip(leaves, self._spec["leaves"])
        ):
            raise ValueError("the parts of the observation have different numbers of rows")
        action: np.ndarray = np.empty((rows, *action_shape(self._spec["action"])), action_dtype(self._spec["action"]))
        if rows == 0:
            return action, state
        remembered = self._state_of(state, rows)
        self._core.act(rows, leaves, self._mask_of(mask, rows), remembered, action, deterministic)
        if not is_one:
            return action, remembered
        # One choice is a number, as environments take it.
        return (action[0] if action.ndim > 1 else action[0].item()), remembered

    def evaluate(
        self, episodes: int = 100, *, seed: int = 0, deterministic: bool = True, max_steps: int = 100_000
    ) -> Evaluation:
        """Plays episodes of its own environment, as `tandem eval` does: the numbers are the same."""
        returns, lengths, cut_short, metrics = self._core.evaluate(episodes, seed, deterministic, max_steps)
        return Evaluation(
            np.array(returns),
            np.array(lengths, dtype=np.int64),
            {name: np.array(values) for name, values in metrics.items()},
            cut_short,
        )

    def _state_of(self, state: "np.ndarray | None", rows: int) -> "np.ndarray | None":
        if self._state_size == 0:
            return None
        if state is None:
            return np.zeros((rows, self._state_size), np.float32)
        return np.array(state, np.float32).reshape(rows, self._state_size)  # a copy: the caller's stays as it is

    def _mask_of(self, mask: "np.ndarray | None", rows: int) -> "np.ndarray | None":
        if mask is None:
            return None
        if self._spec["mask_elements"] == 0:
            raise ValueError(f"{self.env} has no action masks, and the policy was trained without")
        entries = np.asarray(mask).reshape(rows, self._spec["mask_elements"]) != 0
        return np.ascontiguousarray(entries).view(np.uint8)


def load(
    run: "str | os.PathLike[str] | Run",
    *,
    policy: str = "",
    plugins: "str | list[str] | None" = None,
    python: "str | os.PathLike[str] | None" = None,
    seed: int = 0,
) -> Policy:
    """The newest policy of a run, or that of a checkpoint or of a run's `best`. `policy`: its name, where the run has
    several. `plugins`, `python`: those of the environment, where they have moved, or where what the record alone names
    is not run since others may have written it. `seed`: equal ones draw equal actions in equal calls of predict()."""
    given = run._named if isinstance(run, Run) else NamedCode()
    named = NamedCode(
        python=given.python if python is None else os.fspath(python),
        plugins=given.plugins if plugins is None else tuple(paths_of(plugins)),
    )
    return Policy(run.folder if isinstance(run, Run) else run, policy, named, seed=seed)


def evaluate(
    policy: Policy,
    env: "str | Callable[[], Any] | Any | None" = None,
    episodes: int = 100,
    *,
    seed: int = 0,
    deterministic: bool = True,
    max_steps: int = 100_000,
) -> Evaluation:
    """Plays episodes with a policy: of its own environment (`env` None, or its name), or of an environment of
    gymnasium's, or a function that makes one, which is stepped here."""
    if episodes < 1:
        raise ConfigError(f"episodes is {episodes}; it must be at least 1")
    if isinstance(env, str) and core_name(env) != policy.env:
        import gymnasium

        env = gymnasium.make(env)
    if env is None or isinstance(env, str):
        return policy.evaluate(episodes, seed=seed, deterministic=deterministic, max_steps=max_steps)
    made = env() if callable(env) and not hasattr(env, "step") else env
    try:
        return play(policy, made, episodes, seed, deterministic, max_steps)
    finally:
        if made is not env:
            made.close()


def play(policy: Policy, env: Any, episodes: int, seed: int, deterministic: bool, max_steps: int) -> Evaluation:
    returns, lengths, cut_short = np.zeros(episodes), np.zeros(episodes, np.int64), 0
    for episode in range(episodes):
        obs, info = env.reset(seed=seed if episode == 0 else None)
        state, ended = None, False
        while not ended and lengths[episode] < max_steps:
            action, state = policy.predict(obs, state, info.get("action_mask"), deterministic)
            obs, reward, terminated, truncated, info = env.step(action_of(env.action_space, action))
            returns[episode] += reward
            lengths[episode] += 1
            ended = terminated or truncated
        cut_short += not ended
    return Evaluation(returns, lengths, {}, cut_short)
