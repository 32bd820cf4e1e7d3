class Leaf:
    """An array of an observation: where it lies in one, and how it goes into the memory."""

    def __init__(self, path, space):
        spaces = gymnasium.spaces
        self.path, self.space = path, space
        self.name = "/".join(str(step) for step in path) or "obs"
        if isinstance(space, spaces.Box):
            self.kind, self.low, self.high = "box", space.low, space.high
        elif isinstance(space, spaces.Discrete):
            self.kind, self.low, self.high = "discrete", space.start, space.start + space.n - 1
        elif isinstance(space, spaces.MultiDiscrete):
            self.kind, self.low, self.high = "discrete", space.start, space.start + space.nvec - 1
        elif isinstance(space, spaces.MultiBinary):
            self.kind, self.low, self.high = "box", 0, 1
        else:
            raise Refused(
                "observation leaf '%s' is a %s space, which has no arrays of one size; give the environment a wrapper "
                "that leaves it out, as by --env-option python.wrappers=minigrid.wrappers:ImgObsWrapper"
                % (self.name, type(space).__name__)
            )
        self.dtype, self.shape = np.dtype(space.dtype), tuple(space.shape or ())
        # MultiBinary's numbers are 0 and 1, whatever their type.
        self.told = "uint8" if isinstance(space, spaces.MultiBinary) or self.dtype == bool else str(self.dtype)

    def describe(self):
        return {"name": self.name, "kind": self.kind, "dtype": self.told, "shape": [int(n) for n in self.shape],
                "low": bound(self.low, np.min), "high": bound(self.high, np.max)}

    def get(self, observation):
        for step in self.path:
            observation = observation[step]
        return observation

    def check(self, value, shape):
        """The value as an array that may be written, or an exception that says what it is."""
        if type(value) is np.ndarray and value.dtype == self.dtype and value.shape == shape:
            return value
        array = np.asarray(value)
        if array.shape != shape:
            told = (self.name, list(array.shape), list(shape))
            raise ValueError("observation leaf '%s' has shape %s, and its space says %s" % told)
        if array.dtype == self.dtype or np.can_cast(array.dtype, self.dtype, "same_kind"):
            return array
        if array.dtype.kind in "iu" and self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            if array.size == 0 or (array.min() >= limits.min and array.max() <= limits.max):
                return array
        told = (self.name, array.dtype, self.dtype)
        raise TypeError("observation leaf '%s' is of type %s, and its space says %s" % told)


def bound(values, widest):
    """None where nothing is bounded, a number for all elements, or a list; null in it: infinite."""
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    finite = np.isfinite(values)
    if not finite.any():
        return None
    if (values == values[0]).all():
        return float(values[0])
    if values.size > MOST_BOUNDS:
        return float(widest(values)) if finite.all() else None
    return [float(value) if is_finite else None for value, is_finite in zip(values, finite)]


def leaves_of(space, path=()):
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
    else:
        return [Leaf(path, space)]
    return [leaf for step, part in parts for leaf in leaves_of(part, path + (step,))]


class Actions:
    """How actions in the memory become those of a space."""

    MOST_OPTIONS = 4096

    def __init__(self, space):
        spaces = gymnasium.spaces
        self.space, self.start, self.sizes = space, None, None
        if isinstance(space, spaces.Discrete):
            self.type, self.sizes, self.start = "discrete", [int(space.n)], int(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            self.type, self.sizes, self.start = "multi_discrete", flat(space.nvec), np.asarray(space.start)
        elif isinstance(space, spaces.MultiBinary):
            self.type, self.sizes, self.start = "multi_discrete", [2] * int(np.prod(space.shape)), 0
        elif isinstance(space, spaces.Box) and space.dtype.kind == "f":
            self.type = "box"
        elif isinstance(space, spaces.Box) and space.is_bounded() and self.is_small(space):
            self.type, self.start = "multi_discrete", space.low.astype(np.int64)
            self.sizes = flat(space.high.astype(np.int64) - self.start + 1)
        else:
            raise Refused(
                "the action space is %s; actions are Discrete, MultiDiscrete, MultiBinary or Box, so give the "
                "environment a wrapper, as by --env-option python.wrappers=module:Class" % space
            )

    def is_small(self, space):
        return (space.high.astype(np.float64) - space.low.astype(np.float64) < self.MOST_OPTIONS).all()

    def describe(self):
        if self.type == "box":
            return {"type": "box", "low": everywhere(self.space.low), "high": everywhere(self.space.high)}
        return {"type": self.type, "n": self.sizes}

    def elements(self):
        return int(np.prod(self.space.shape)) if self.type == "box" else len(self.sizes)

    def of(self, rows):
        """Those of all rows, one behind the other, in memory of their own: an environment may keep them."""
        if self.type == "discrete":
            return rows[:, 0] + self.start
        chosen = rows.reshape((len(rows),) + self.space.shape)
        return chosen.astype(self.space.dtype) if self.type == "box" else (chosen + self.start).astype(self.space.dtype)


def flat(values):
    return [int(value) for value in np.asarray(values).reshape(-1)]


def everywhere(values):
    """A bound of each element; null: infinite."""
    return [float(value) if np.isfinite(value) else None for value in np.asarray(values, dtype=np.float64).reshape(-1)]


def mask_of(info):
    """The mask in an info, flat; None where there is none."""
    mask = info.get("action_mask") if isinstance(info, dict) else None
    if mask is None:
        return None
    if isinstance(mask, (tuple, list)):
        return np.concatenate([np.asarray(part).reshape(-1) for part in mask])
    return np.asarray(mask).reshape(-1)


def check_mask(mask, shape):
    if mask is None:
        raise ValueError("its info has no action_mask any more")
    if np.asarray(mask).shape != shape:
        raise ValueError("its action_mask has %s entries; %s are due" % (list(np.asarray(mask).shape), list(shape)))
    return np.asarray(mask) != 0


