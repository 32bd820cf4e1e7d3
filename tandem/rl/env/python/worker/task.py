"""The process that steps Python environments for a training of Tandem.

A training starts it as `python -u -` with this text on standard input, a connected socket as descriptor 3 and shared
memory as descriptor 4. It speaks what tandem/rl/env/isolated/region_layout.h says, and needs gymnasium and numpy.
What environments print goes to the standard streams, which the training hands on to its user.
"""
import sys

# A text on standard input has the current folder before all packages, the standard library's included. Environments of
# that folder are found behind them, and no file in it takes a package's place.
if sys.path[:1] == [""]:
    sys.path.append(sys.path.pop(0))

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import mmap
import os
import pkgutil
import re
import signal
import socket
import threading
import traceback

SOCKET, MEMORY = 3, 4
BEGIN, RESET, STEP, PROGRESS, SAVE, LOAD, GIVE, TAKE, ANSWER, DESCRIBE, STEP_ROWS, RENDER, \
    REWARD_GOALS = range(1, 14)
SAVES, STEPS_ROWS, DRAWS, REWARDS_GOALS = 1, 2, 4, 8
END_OF_EPISODE = 1 << 32
DONE, FAILED, REFUSED, UNREADABLE, ASKS = range(5)
REST, LAST_STEP = 0, 2
MOST_TEXT, WINDOW = 4096, 256 << 10
OLDEST_GYMNASIUM = (1, 0)
# The types of leaves in the memory.
TYPES = ("float32", "uint8", "int64", "float64")
# Bounds of larger leaves whose elements differ are told as the widest.
MOST_BOUNDS = 4096


class Refused(Exception):
    """What the user has to mend before a training can begin."""


class Failed(Exception):
    """A failure of an environment, in words that say where."""


class TrainingIsGone(BaseException):
    """The training has let the worker go."""


# What an environment may raise. It may not end the process by sys.exit().
FAILURES = (Exception, SystemExit)




def value_of(text):
    """An option's value: JSON, Python's True, False and None, or else the text itself."""
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def texts_of(option, text, what):
    """Of an option that is one text, or a list of such."""
    texts = value_of(text)
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise Refused("%s is %s; it is %s, or a JSON list of such" % (option, json.dumps(texts), what))
    return texts


def named(path):
    """The object that "package.module:Name" or "package.module.Name" names."""
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:
        if not isinstance(error, (ImportError, AttributeError, ValueError)):
            traceback.print_exc()
        told = (path, type(error).__name__, error)
        raise Refused("there is no '%s' in this Python: %s: %s" % told) from error


# What brings a module, where it is called otherwise.
DISTRIBUTIONS = {"ale_py": "ale-py", "highway_env": "highway-env"}


def import_named(module, env):
    try:
        return importlib.import_module(module)
    except Exception as error:
        package = module.partition(".")[0]
        if not isinstance(error, ModuleNotFoundError) or error.name != package:
            traceback.print_exc()  # it is there, and fails
        raise Refused(
            "%s: %s cannot import '%s': %s: %s; install it, probably with `%s -m pip install %s`, or name another "
            "Python by --python. The folder in which the command was started is looked in, too"
            % (env, sys.executable, module, type(error).__name__, error, sys.executable,
               DISTRIBUTIONS.get(package, package))
        ) from error


def require_gymnasium():
    """Imports the packages that a worker needs itself."""
    global gymnasium, np
    for package in ("numpy", "gymnasium"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise Refused(
                "the Python %s lacks %s (%s); install it with `%s -m pip install 'gymnasium>=1.0'`, or name another "
                "Python by --python" % (sys.executable, package, error, sys.executable)
            ) from error
    import gymnasium
    import numpy as np

    version = tuple(int(part) for part in gymnasium.__version__.split(".")[:2] if part.isdigit())
    if version < OLDEST_GYMNASIUM:
        raise Refused(
            "the Python %s has gymnasium %s, and 1.0 or newer is needed; install it with `%s -m pip install "
            "'gymnasium>=1.0'`, or name another Python by --python"
            % (sys.executable, gymnasium.__version__, sys.executable)
        )


class Task:
    """The environments that a training asks for."""

    def __init__(self, text):
        task = json.loads(text)
        self.env, self.count = task["env"], task["environments"]
        self.first, self.whole = task.get("first", 0), task.get("whole", self.count)
        self.restarts = task.get("restarts")
        options = dict(task["options"])
        self.wrappers = texts_of("python.wrappers", options.pop("python.wrappers", "[]"), "module:Class")
        self.metrics = texts_of("python.metrics", options.pop("python.metrics", "[]"), "a name in info")
        self.vectorization = options.pop("python.vectorization", "auto")
        options.pop("python.interpreter", None)
        own = [name for name in options if name.startswith("python.")]
        if own:
            known = "python.wrappers, python.vectorization and python.metrics"
            raise Refused("there is no option '%s'; there are %s" % (own[0], known))
        if self.vectorization not in ("auto", "loop", "vector"):
            raise Refused("python.vectorization is '%s'; it is auto, loop or vector" % self.vectorization)
        self.keywords = {name: value_of(value) for name, value in options.items()}
        require_gymnasium()
        self.wrappers = [named(path) for path in self.wrappers]
        self.spec, self.module = None, None
        kind, _, rest = self.env.partition(":")
        if kind == "pettingzoo" and self.metrics:
            raise Refused("python.metrics has no effect: each agent of %s has an info of its own" % self.env)
        if kind == "pettingzoo":
            self.module = import_named(rest, self.env)
            if not hasattr(self.module, "parallel_env"):
                told = "%s: %s has no parallel_env(); name a module of PettingZoo's parallel API"
                raise Refused(told % (self.env, rest))
            return
        module, _, name = (rest if kind == "gymnasium" else self.env).rpartition(":")
        if module:
            import_named(module, self.env)
        elif name.startswith("ALE/"):
            gymnasium.register_envs(import_named("ale_py", self.env))
        try:
            self.spec = gymnasium.spec(name)
        except gymnasium.error.Error as error:
            where = "%s: gymnasium %s" % (self.env, gymnasium.__version__)
            raise Refused("%s has no such environment: %s" % (where, error)) from error

    def words_for(self, e):
        """An environment of this worker by its number in the group."""
        return "environment %d of %d" % (self.first + e, self.whole)

    def make(self):
        if self.module is not None:
            env = self.module.parallel_env(**self.keywords)
        else:
            env = gymnasium.make(self.spec, disable_env_checker=True, **self.keywords)
        for wrapper in self.wrappers:
            env = wrapper(env)
        return env if self.module is None else JointEnv(env)

    def steps_many(self):
        """Whether all environments are one object, which steps them together."""
        if self.spec is None:
            return False
        if self.spec.vector_entry_point is None or self.vectorization == "loop":
            if self.vectorization == "vector":
                raise Refused("%s has no vector_entry_point; leave python.vectorization out" % self.env)
            return False
        if self.vectorization == "vector" or self.spec.entry_point is None:
            return True
        return not self.wrappers and not self.spec.additional_wrappers and self.chooses_autoreset()

    def chooses_autoreset(self):
        entry = self.spec.vector_entry_point
        if not callable(entry):
            entry = gymnasium.envs.registration.load_env_creator(entry)
        return "autoreset_mode" in inspect.signature(entry).parameters

    def make_many(self):
        keywords = dict(self.keywords)
        if self.chooses_autoreset():
            keywords.setdefault("autoreset_mode", "SameStep")
        return gymnasium.make_vec(self.spec, self.count, vectorization_mode="vector_entry_point", **keywords)


