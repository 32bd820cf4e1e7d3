"""Observations and actions of a spec (python/src/spec_dict.h) as arrays, and as spaces of gymnasium's."""

from typing import Any

import numpy as np


def leaves_of(observation: Any, leaves: list[dict[str, Any]]) -> list[np.ndarray]:
    """The arrays of an observation in the order of the spec, as its leaves have them, of one row or of many."""
    parts = flat(observation, "") if isinstance(observation, (dict, tuple)) else {leaves[0]["name"]: observation}
    if set(parts) != {leaf["name"] for leaf in leaves}:
        names = [leaf["name"] for leaf in leaves]
        raise ValueError(f"the observation has {sorted(parts)}, and the policy sees {sorted(names)}")
    return [array_of(parts[leaf["name"]], leaf) for leaf in leaves]


def flat(observation: Any, prefix: str) -> dict[str, Any]:
    """Parts of dicts and tuples, named by their paths: near/speed, pair/0."""
    if not isinstance(observation, (dict, tuple)):
        return {prefix: observation}
    items = observation.items() if isinstance(observation, dict) else enumerate(observation)
    whole: dict[str, Any] = {}
    for name, part in items:
        whole.update(flat(part, f"{prefix}/{name}" if prefix else str(name)))
    return whole


def array_of(value: Any, leaf: dict[str, Any]) -> np.ndarray:
    given = np.asarray(value)
    if given.ndim not in (len(leaf["shape"]), len(leaf["shape"]) + 1) or (
        list(given.shape[given.ndim - len(leaf["shape"]) :]) != leaf["shape"]
    ):
        raise ValueError(
            f"'{leaf['name']}' has shape {list(given.shape)}; it is {leaf['shape']}, with or without rows in front"
        )
    if leaf["dtype"] in ("uint8", "int64") and given.dtype.kind not in "biu":
        raise TypeError(f"'{leaf['name']}' is of type {given.dtype}, and the policy sees {leaf['dtype']}")
    refuse_what_would_wrap(given, leaf)
    return np.ascontiguousarray(given, dtype=leaf["dtype"])


def refuse_what_would_wrap(given: np.ndarray, leaf: dict[str, Any]) -> None:
    """Integers that the leaf's type does not hold."""
    dtype = np.dtype(leaf["dtype"])
    if dtype.kind not in "iu" or given.size == 0 or np.can_cast(given.dtype, dtype):
        return
    least, most, bounds = int(given.min()), int(given.max()), np.iinfo(dtype)
    if least < bounds.min or most > bounds.max:
        wrong = least if least < bounds.min else most
        raise ValueError(f"'{leaf['name']}' holds {wrong}, and {dtype} goes from {bounds.min} to {bounds.max}")


def action_shape(action: dict[str, Any]) -> tuple[int, ...]:
    if action["type"] == "discrete":
        return ()
    return (len(action["n"]),) if action["type"] == "multi_discrete" else (len(action["low"]),)


def action_dtype(action: dict[str, Any]) -> type:
    return np.float32 if action["type"] == "box" else np.int64


def action_of(space: Any, chosen: Any) -> Any:
    """One action of a policy's as an environment's space has it: in the space's shape and type, and counted from where
    the space begins.

    Workers do the same (Actions.of in tandem/rl/env/python/worker/spaces.py). Their text is part of the core and runs
    in Pythons that may lack this package, so neither can import the other; a test compares them.
    """
    from gymnasium import spaces

    action = np.asarray(chosen)
    is_known = isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary))
    is_continuous = isinstance(space, spaces.Box) and space.dtype.kind == "f"
    if not is_known or action.size != np.prod(space.shape) or (action.dtype.kind == "f") != is_continuous:
        what = f"{action.size} of type {action.dtype}"
        raise ValueError(f"the policy's actions are {what}, and the environment's action space is {space}")
    if is_continuous:
        return action.reshape(space.shape).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return np.int64(action.item() + int(space.start))
    start = space.low.astype(np.int64) if isinstance(space, spaces.Box) else getattr(space, "start", 0)
    return (action.reshape(space.shape) + start).astype(space.dtype)


def observation_space(leaves: list[dict[str, Any]]) -> Any:
    from gymnasium import spaces

    if len(leaves) == 1:
        return leaf_space(leaves[0])
    return spaces.Dict({leaf["name"]: leaf_space(leaf) for leaf in leaves})


def leaf_space(leaf: dict[str, Any]) -> Any:
    from gymnasium import spaces

    dtype, shape = np.dtype(leaf["dtype"]), tuple(leaf["shape"])
    if dtype == np.int64 and not shape and leaf["low"]:
        start = int(leaf["low"][0])
        return spaces.Discrete(int(leaf["high"][0]) - start + 1, start=start)
    low: Any = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    high: Any = np.inf if dtype.kind == "f" else np.iinfo(dtype).max
    if leaf["low"]:
        with np.errstate(over="ignore"):
            low, high = (np.asarray(leaf[side], np.float64).astype(dtype).reshape(shape) for side in ("low", "high"))
    return spaces.Box(low, high, shape, dtype=dtype.type)


def action_space(action: dict[str, Any]) -> Any:
    from gymnasium import spaces

    if action["type"] == "discrete":
        return spaces.Discrete(action["n"][0])
    if action["type"] == "multi_discrete":
        return spaces.MultiDiscrete(action["n"])
    low, high = (np.asarray(action[side], np.float32) for side in ("low", "high"))
    return spaces.Box(low, high, low.shape, np.float32)
