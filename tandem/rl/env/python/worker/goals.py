class Goals:
    """What steps would have earned for other goals, as GoalEnv of Gymnasium-Robotics says it. The first environment of
    the worker answers for all."""

    def __init__(self, reward, terminated, leaf, dtype):
        self.reward, self.terminated, self.leaf, self.dtype = reward, terminated, leaf, dtype

    def worth(self, rows, goals):
        """Of rows of achieved goals, of desired ones, and a byte each that says whether the task ended."""
        count = rows * int(np.prod(self.leaf.shape, dtype=np.int64))
        pairs = np.frombuffer(goals, self.dtype, 2 * count).reshape((2, rows) + self.leaf.shape)
        achieved, desired = pairs.astype(self.leaf.dtype)
        rewards = np.asarray(self.reward(achieved, desired, [{} for _ in range(rows)]), dtype=np.float64)
        if rewards.shape != (rows,):
            told = (rows, list(achieved.shape), list(rewards.shape))
            raise ValueError("compute_reward() of %d goals at once, as arrays of shape %s, gives rewards of shape %s; "
                             "hindsight needs one for each" % told)
        ends = np.frombuffer(goals, np.uint8, rows, 2 * count * self.dtype.itemsize)
        if self.terminated is not None:
            # It is made for one step at a time.
            pairs = zip(achieved, desired)
            ends = np.array([bool(self.terminated(reached, wanted, {})) for reached, wanted in pairs], dtype=np.uint8)
        return rewards.tobytes() + ends.tobytes()


def goals_of(env, shown):
    """None where the environment has no goals, or does not say what they are worth."""
    places = {leaf.path: number for number, leaf in enumerate(shown.leaves)}
    place = places.get(("achieved_goal",))
    reward = function_of(env, "compute_reward")
    if reward is None or place is None or ("desired_goal",) not in places:
        return None
    return Goals(reward, function_of(env, "compute_terminated"), shown.leaves[place], shown.now[place].dtype)


def function_of(env, name):
    """Of the outermost wrapper that has it."""
    try:
        its = env.get_wrapper_attr(name)
    except AttributeError:
        return None
    return its if callable(its) else None
