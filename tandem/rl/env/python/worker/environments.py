def unlike(answer, call, wanted):
    """What an environment returned that cannot be taken apart: of an older interface, or by mistake."""
    its = "%d values" % len(answer) if isinstance(answer, (tuple, list)) else type(answer).__name__
    return TypeError("%s returned %s, and gymnasium's environments return (%s)" % (call, its, wanted))


def of_reset(answer):
    """Observation and info."""
    try:
        observation, info = answer
    except (TypeError, ValueError):
        raise unlike(answer, "reset()", "observation, info") from None
    return observation, info


class Loop:
    """Environments that are objects of their own, stepped one after the other."""

    def __init__(self, worker):
        self.worker, self.task = worker, worker.task
        self.envs = [self.task.make() for _ in range(self.task.count)]
        self.steps = [0] * self.task.count
        self.ends = {}  # of environments that are drawn: how the last episode ended
        self.metrics = Metrics(self.task.metrics, self.task.count) if self.task.metrics else None

    def space_owner(self):
        return self.envs[0].observation_space, self.envs[0].action_space

    def reset(self):
        for e, seed in enumerate(self.worker.shown.start_seeds):
            self.begin(e, seed)

    def begin(self, e, seed):
        """With restarts until it begins, each with the seed of its failure."""
        shown = self.worker.shown
        while True:
            try:
                self.first(e, self.envs[e].reset(seed=python_seed(seed)))
                return
            except FAILURES as error:
                seed = self.anew(e, "reset()", error)

    def first(self, e, shown_by_reset):
        observation, info = of_reset(shown_by_reset)
        self.worker.shown.write_now(e, observation, info)
        self.steps[e] = 0
        if self.metrics:
            self.metrics.begin(e)

    def anew(self, e, where, error):
        """Another environment in the place of one that failed, if the training allows it. Returns its seed."""
        self.worker.ask("%s in %s" % (self.task.words_for(e), where), error)
        while True:
            self.worker.shown.failures[e] += np.uint64(1)
            close(self.envs[e])
            try:
                self.envs[e] = self.task.make()
                return derived(int(self.worker.shown.seeds[e]), int(self.worker.shown.failures[e]))
            except FAILURES as failure:
                self.worker.ask("%s while it was made anew" % self.task.words_for(e), failure)

    def step(self, rows=None):
        """`rows`: what each environment does, a byte each; none: all step."""
        shown = self.worker.shown
        for e, action in enumerate(self.worker.actions.of(shown.actions)):
            if rows is not None and rows[e] == REST:
                continue
            env = self.envs[e]
            try:
                answer = env.step(action)
                try:
                    observation, reward, terminated, truncated, info = answer
                except (TypeError, ValueError):
                    raise unlike(answer, "step()", "observation, reward, terminated, truncated, info") from None
                truncated = truncated or (rows is not None and rows[e] == LAST_STEP)
                shown.reward[e] = reward
                shown.terminated[e], shown.truncated[e] = bool(terminated), bool(truncated)
                if self.metrics:
                    told = self.metrics.of_one(e, info, terminated or truncated)
                    if told is not None:
                        shown.metrics[e] = told
                if terminated or truncated:
                    if e in self.ends:
                        self.ends[e] = drawn(env)
                    shown.write(shown.final, e, observation)
                    self.first(e, env.reset())
                else:
                    shown.write_now(e, observation, info)
                    self.steps[e] += 1
            except FAILURES as error:
                shown.end_by_failure(e)
                self.begin(e, self.anew(e, "step %d of its episode" % (self.steps[e] + 1), error))

    def draw(self):
        """Whether all do."""
        return all(getattr(env, "render_mode", None) == "rgb_array" for env in self.envs)

    def picture(self, e, of_end):
        if of_end:
            return self.ends[e]
        self.ends.setdefault(e, b"")
        return drawn(self.envs[e])

    def close(self):
        for env in self.envs:
            close(env)


def drawn(env):
    """What it draws of itself, as the memory has pictures."""
    picture = env.render()
    pixels = np.asarray(picture)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        what = type(picture).__name__
        if isinstance(picture, np.ndarray):
            what = "%s%s" % (pixels.dtype, list(pixels.shape))
        raise ValueError("render() gives %s; a picture is an array of uint8 with the shape [height, width, 3]" % what)
    return np.array(pixels.shape[:2], np.uint32).tobytes() + pixels.tobytes()


class Together:
    """Environments that one object steps all at once, in each of Gymnasium's modes of autoreset."""

    def __init__(self, worker):
        self.worker, self.task = worker, worker.task
        self.metrics = Metrics(self.task.metrics, self.task.count) if self.task.metrics else None
        self.make()

    def make(self):
        self.envs = self.task.make_many()
        mode = self.envs.metadata.get("autoreset_mode", "NextStep")
        self.mode = getattr(mode, "value", mode)
        self.ended = np.zeros(self.task.count, dtype=bool)

    def space_owner(self):
        return self.envs.single_observation_space, self.envs.single_action_space

    def reset(self):
        self.begin([int(seed) for seed in self.worker.shown.start_seeds])

    def begin(self, seeds):
        while True:
            try:
                observations, infos = self.reset_with([python_seed(seed) for seed in seeds])
                self.show(observations, infos)
                self.ended[:] = False
                if self.metrics:
                    self.metrics.begin()
                return
            except FAILURES as error:
                seeds = self.anew("reset()", error)

    def reset_with(self, seeds):
        """Some take a list of seeds, some an array, and some one number."""
        for each in (seeds, np.asarray(seeds, dtype=np.int32)):
            try:
                return self.envs.reset(seed=each)
            except (TypeError, AssertionError, ValueError, gymnasium.error.Error):
                continue
        return self.envs.reset(seed=seeds[0])

    def show(self, observations, infos, rows=slice(None)):
        shown, mask = self.worker.shown, None
        if shown.mask is not None:  # looked at before anything is written: a failure shows what was seen last
            mask = infos.get("action_mask")
            if isinstance(mask, np.ndarray) and mask.dtype == object:
                mask = np.stack([np.asarray(one).reshape(-1) for one in mask])
            mask = check_mask(mask, shown.mask.shape)
        shown.write_all(shown.now, observations, rows)
        if mask is not None:
            shown.mask[rows] = mask[rows]

    def anew(self, where, error):
        shown = self.worker.shown
        told = "%d environments that are stepped as one, from %s on, in %s"
        self.worker.ask(told % (self.task.count, self.task.words_for(0), where), error)
        while True:
            shown.failures[:] += np.uint64(1)
            close(self.envs)
            try:
                self.make()
                return [derived(int(seed), int(failures)) for seed, failures in zip(shown.seeds, shown.failures)]
            except FAILURES as failure:
                self.worker.ask("all environments while they were made anew", failure)

    def step(self):
        try:
            self.step_all()
        except FAILURES as error:
            self.worker.shown.end_by_failure(slice(None))
            self.begin(self.anew("a step", error))

    def step_all(self):
        shown = self.worker.shown
        actions = self.worker.actions.of(shown.actions)
        observations, rewards, terminations, truncations, infos = self.envs.step(actions)
        terminated, truncated = np.asarray(terminations, dtype=bool), np.asarray(truncations, dtype=bool)
        ended = terminated | truncated
        shown.reward[:], shown.terminated[:], shown.truncated[:] = rewards, terminated, truncated
        if self.metrics:
            told = self.metrics.of_all(infos, ended)
            shown.metrics[ended] = told[ended]
            self.metrics.begin(ended)
        if not ended.any():
            return self.show(observations, infos)
        if self.mode == "SameStep":
            self.write_finals(infos, ended)
            return self.show(observations, infos)
        shown.write_all(shown.final, observations, ended)
        if self.mode == "Disabled":
            self.show(observations, infos, ~ended)
            observations, infos = self.envs.reset(options={"reset_mask": ended})
            return self.show(observations, infos, ended)
        # The next step of such an environment begins its episode and looks at no action: a step of the new episode.
        return self.show(observations, infos)

    def write_finals(self, infos, ended):
        """Those of the rows that ended: rows of an array, or objects one by one."""
        shown = self.worker.shown
        finals = infos.get("final_obs", infos.get("final_observation"))
        if finals is None:
            raise ValueError("an episode ended, and the infos of autoreset_mode SameStep have no final_obs")
        if isinstance(finals, np.ndarray) and finals.dtype == object:
            for e in np.flatnonzero(ended):
                shown.write(shown.final, e, finals[e])
        else:
            shown.write_all(shown.final, finals, ended)

    def close(self):
        close(self.envs)


def close(env):
    try:
        env.close()
    except FAILURES:
        traceback.print_exc()


