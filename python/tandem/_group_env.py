"""An env group of the core (tandem/rl/env/env_group.h) in the interface of gymnasium.vector."""

from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tandem._load import core
from tandem._spaces import action_dtype, action_shape, action_space, observation_space

# Texts as the program takes them.
Pairs = list[str]


class GroupVectorEnv(VectorEnv):
    """The core writes into arrays of this object: nothing is copied on the way, and by `copy=False` nothing at all."""

    def __init__(
        self, name: str, num_envs: int, copy: bool, options: Pairs, wrappers: Pairs, plugins: Pairs, python: Any
    ):
        super().__init__()
        self._group: Any = core().EnvGroup(name, num_envs, options, wrappers, plugins, python)
        its = self._group.spec
        self.num_envs, self.copy = num_envs, copy
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = observation_space(its["leaves"])
        self.single_action_space = action_space(its["action"])
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._action_shape = (num_envs, *action_shape(its["action"]))
        self._action_dtype = action_dtype(its["action"])
        self._choices = np.array(its["action"].get("n", []), np.int64)
        self._names = [leaf["name"] for leaf in its["leaves"]]
        self._metric_names = its["metrics"]
        self._make_arrays(its)
        self._is_reset = False

    def _make_arrays(self, its: dict[str, Any]) -> None:
        rows = self.num_envs
        leaves = [((rows, *leaf["shape"]), leaf["dtype"]) for leaf in its["leaves"]]
        self._observation = [np.zeros(shape, dtype) for shape, dtype in leaves]
        self._final = [np.zeros(shape, dtype) for shape, dtype in leaves]
        self._reward = np.zeros(rows)
        self._terminated, self._truncated = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
        self._metrics = np.zeros((rows, len(self._metric_names)))
        self._mask = np.ones((rows, its["mask_elements"]), np.bool_) if its["mask_elements"] else None
        self._group.bind(
            self._observation,
            self._final,
            self._reward,
            self._terminated.view(np.uint8),
            self._truncated.view(np.uint8),
            self._metrics,
            None if self._mask is None else self._mask.view(np.uint8),
        )

    def reset(self, *, seed: "int | list[int | None] | None" = None, options: "dict[str, Any] | None" = None) -> Any:
        if options and "reset_mask" in options:
            raise ValueError("episodes that end begin anew by themselves, so there is no reset_mask; reset all")
        if options:
            raise ValueError(
                f"reset(options={options!r}): environments of make_vec() take none; what can be set of them is its "
                "env_options"
            )
        self._open_group().reset(self._seeds(seed))
        self._is_reset = True
        return self._shown(), self._mask_info()

    def step(self, actions: Any) -> Any:
        if not self._is_reset:
            raise RuntimeError("reset() comes before the first step()")
        self._open_group().step(self._checked(actions))
        infos = self._mask_info()
        ended = self._terminated | self._truncated
        if ended.any():
            infos.update(self._ends(ended))
        return self._shown(), self._reward.copy(), self._terminated.copy(), self._truncated.copy(), infos

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the worker processes, where the environments have some. `kwargs` are those of other vector environments,
        and change nothing."""
        self._group = None

    def _open_group(self) -> Any:
        if self._group is None:
            raise ClosedEnvironmentError("the environments are closed; make others by make_vec()")
        return self._group

    def _seeds(self, seed: "int | list[int | None] | None") -> np.ndarray:
        """Seeds also `np_random`, which later resets without a seed draw theirs from: they repeat then."""
        if seed is None:
            return self.np_random.integers(0, 2**31, self.num_envs, dtype=np.uint64)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
            return np.arange(self.num_envs, dtype=np.uint64) + np.uint64(seed)
        if len(seed) != self.num_envs:
            raise ValueError(f"there are {len(seed)} seeds for {self.num_envs} environments")
        named = [int(its) for its in seed if its is not None]
        if len(named) == self.num_envs:
            self.np_random = np.random.default_rng(named)
        drawn = self.np_random.integers(0, 2**31, self.num_envs, dtype=np.uint64)
        return np.array([drawn[i] if its is None else its for i, its in enumerate(seed)], np.uint64)

    def _checked(self, actions: Any) -> np.ndarray:
        given = np.asarray(actions)
        if given.shape != self._action_shape:
            raise ValueError(f"actions have shape {list(given.shape)}; it must be {list(self._action_shape)}")
        if self._action_dtype is np.int64 and given.dtype.kind not in "iu":
            raise TypeError(f"actions are of type {given.dtype}; they are integers")
        if self._action_dtype is np.float32:
            space: Any = self.single_action_space
            given = np.clip(given, space.low, space.high)  # as runs do
        return np.ascontiguousarray(given, self._action_dtype)

    def _shown(self) -> Any:
        parts = deepcopy(self._observation) if self.copy else self._observation
        return parts[0] if len(parts) == 1 else dict(zip(self._names, parts))

    def _mask_info(self) -> dict[str, Any]:
        return {} if self._mask is None else {"action_mask": self._mask.copy() if self.copy else self._mask}

    def _ends(self, ended: np.ndarray) -> dict[str, Any]:
        """As gymnasium's own vector environments tell it: objects in the rows that ended, and which these are."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row in np.flatnonzero(ended):
            parts = [leaf[row].copy() for leaf in self._final]
            final_obs[row] = parts[0] if len(parts) == 1 else dict(zip(self._names, parts))
        final_info: dict[str, Any] = {}
        for number, name in enumerate(self._metric_names):
            final_info[name], final_info[f"_{name}"] = np.where(ended, self._metrics[:, number], 0.0), ended.copy()
        infos = {"final_obs": final_obs, "final_info": final_info}
        return {**infos, "_final_obs": ended.copy(), "_final_info": ended.copy()}
