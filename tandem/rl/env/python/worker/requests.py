class Worker:
    def __init__(self, memory):
        self.memory, self.input, self.output, self.taken = memory, b"", b"", 0
        self.task = self.envs = self.shown = self.actions = self.goals = None

    def serve(self):
        run = {BEGIN: self.begin, RESET: self.reset, STEP: self.step, PROGRESS: lambda _: 0, GIVE: self.give,
               TAKE: self.take, DESCRIBE: self.describe, STEP_ROWS: self.step_rows, RENDER: self.render,
               REWARD_GOALS: self.reward_goals}
        while True:
            command, argument = self.memory.wait()
            try:
                if command not in run:
                    raise Failed("a worker of Python environments was asked for %d, which it does not know" % command)
                value = run[command](argument)
            except TrainingIsGone:
                raise
            except Refused as error:
                self.memory.tell(REFUSED if command in (BEGIN, DESCRIBE) else FAILED, str(error))
            except Failed as error:
                self.memory.tell(FAILED, str(error))
            except gymnasium_error() as error:
                # That a package is missing, or an environment unknown: its message says what to do.
                self.memory.tell(REFUSED if command in (BEGIN, DESCRIBE) else FAILED, "%s: %s" % (self.env(), error))
            except BaseException as error:
                self.memory.tell(REFUSED if command in (BEGIN, DESCRIBE) else FAILED, self.words_for("", error))
            else:
                self.memory.answer(DONE, value)

    def env(self):
        """Its name, once the task is known."""
        return self.task.env if self.task else "a Python environment"

    def words_for(self, place, error):
        raised = error.__traceback__
        while raised is not None and raised.tb_frame.f_code.co_filename == worker_file and raised.tb_next is not None:
            raised = raised.tb_next  # the calls of this file tell a user nothing
        lines = "".join(traceback.format_exception(type(error), error, raised))
        where = self.env() + ": " + place + ": " if place else self.env() + ": "
        return "%s%s: %s\n%s" % (where, type(error).__name__, error, lines.rstrip())

    def ask(self, place, error):
        """May an environment that failed be made anew? Raises Failed where it may not."""
        text = self.words_for(place, error)
        if self.task.restarts is None:
            raise Failed(text)
        self.memory.tell(ASKS, text)
        command, allowed = self.memory.wait()
        if command != ANSWER or allowed != 1:
            few = "environments have failed %d times before, which is all that env_restarts allows"
            raise Failed("%s; %s" % (text, few % self.task.restarts))

    def make(self):
        self.task = Task(self.input)
        self.input = b""
        self.envs = Together(self) if self.task.steps_many() else Loop(self)
        observation, action = self.envs.space_owner()
        try:
            leaves = leaves_of(observation)
            if isinstance(action, list):
                self.actions = JointActions(action)
                name_leaves(leaves, self.envs.envs[0].names)
            else:
                self.actions = Actions(action)
        except Refused as error:
            raise Refused("%s: %s" % (self.task.env, error)) from error
        return leaves

    def begin(self, _):
        self.shown = Shown(self.memory, self.make(), self.actions)
        # Their states cannot be saved. Objects of their own can rest beside others.
        if not isinstance(self.envs, Loop):
            return 0
        self.goals = goals_of(self.envs.envs[0], self.shown)
        return STEPS_ROWS | (DRAWS if self.envs.draw() else 0) | (REWARDS_GOALS if self.goals else 0)

    def describe(self, _):
        name = json.loads(self.input)["env"]
        if is_listing(name):
            self.output, self.taken = json.dumps(listing(name)).encode(), 0
            return len(self.output)
        leaves, envs = self.make(), self.envs
        one = envs.envs if isinstance(envs, Together) else envs.envs[0]
        _, info = of_reset(one.reset(seed=0))
        if isinstance(one, JointEnv):
            shown = {"agents": describe_agents(one)}
        else:
            has_mask = self.actions.type != "box" and mask_of(info) is not None
            shown = {"observation": [leaf.describe() for leaf in leaves], "action": self.actions.describe(),
                     "mask": has_mask}
        fps = (getattr(one, "metadata", None) or {}).get("render_fps")
        described = getattr(one, "spec", None) or self.task.spec
        self.output = json.dumps({
            **shown, "metrics": Metrics.describe(self.task.metrics),
            "max_episode_steps": getattr(described, "max_episode_steps", None),
            "reward_threshold": getattr(described, "reward_threshold", None),
            "render_fps": float(fps) if isinstance(fps, (int, float)) else None,
            "together": isinstance(envs, Together), "gymnasium": gymnasium.__version__,
        }).encode()
        self.taken = 0
        return len(self.output)

    def reset(self, _):
        self.envs.reset()
        return 0

    def step(self, _):
        self.envs.step()
        return 0

    def step_rows(self, _):
        # A copy: what the worker tells on the way lies in the window, too.
        begin = self.memory.window
        self.envs.step(bytes(self.memory.bytes[begin:begin + self.memory.environments]))
        return 0

    def render(self, which):
        self.output, self.taken = self.envs.picture(which % END_OF_EPISODE, which >= END_OF_EPISODE), 0
        return len(self.output)

    def reward_goals(self, rows):
        goals, self.input = self.input, b""
        try:
            self.output, self.taken = self.goals.worth(rows, goals), 0
        except FAILURES as error:
            place = "compute_reward() or compute_terminated(), without the info of steps"
            raise Failed(self.words_for(place, error)) from error
        return len(self.output)

    def give(self, size):
        begin = self.memory.window
        self.input += self.memory.bytes[begin:begin + min(size, WINDOW)]
        return 0

    def take(self, _):
        piece = self.output[self.taken:self.taken + WINDOW]
        self.memory.bytes[self.memory.window:self.memory.window + len(piece)] = piece
        self.taken += len(piece)
        return len(piece)


worker_file = Worker.words_for.__code__.co_filename


def gymnasium_error():
    """What gymnasium raises itself; nothing before it is imported."""
    package = sys.modules.get("gymnasium")
    return package.error.Error if package is not None else ()


# Users and schedulers send these to all processes of a training, and they are not for workers.
NOT_FOR_WORKERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def let_signals_pass():
    """The training has them ignored, which programs that an environment starts would inherit, and none of them could
    be terminated. What has a function instead is as usual in a program, and the copies that a fork makes are told."""
    for number in NOT_FOR_WORKERS:
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, False)
    os.register_at_fork(before=hold_signals, after_in_parent=release_signals, after_in_child=signals_as_usual)


HELD = threading.local()  # the mask of a thread that forks, as it was before


def hold_signals():
    """One that a copy is sent before it has signals as usual waits until then."""
    HELD.mask = signal.pthread_sigmask(signal.SIG_BLOCK, NOT_FOR_WORKERS)


def release_signals():
    signal.pthread_sigmask(signal.SIG_SETMASK, HELD.mask)


def signals_as_usual():
    for number in NOT_FOR_WORKERS:
        signal.signal(number, signal.SIG_DFL)
    release_signals()


def main():
    let_signals_pass()
    # What multiprocessing starts would look for a file of this name.
    globals().pop("__file__", None)
    # Each worker would greet.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    worker = Worker(Memory())
    try:
        worker.serve()
    except TrainingIsGone:
        pass
    if worker.envs is not None:
        worker.envs.close()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that libraries have left would be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
