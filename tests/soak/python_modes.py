"""Trainings with environments in Python, and what is done to their workers: the soak with --python."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from pathlib import Path

from kinds import KINDS, Kind, Scene
from modes import Mode, Recipe, recipe

HERE = Path(__file__).resolve().parent
# Where the environments are: soak_env.py, and those of the tests of the bridge.
VARIABLES = {"PYTHONPATH": f"{HERE}:{HERE.parent / 'python'}", "PYTHONDONTWRITEBYTECODE": "1"}
SOMEBODY_WITHIN_S = 5.0
ENV_DEADLINE_S = 2

_DEADLINE = f"env_deadline_seconds={ENV_DEADLINE_S}"
_LIMITS = f"{_DEADLINE} env_memory_mb=500"
_PPO = "--seed 11 --num-envs 6 --rollout-steps 64 --epochs 1 --minibatches 1 --env "


def _of(name: str, env: str, more: str = "", settings: str = "", misbehaves: bool = False) -> Recipe:
    return recipe(name, f"{_PPO}{env} {more}", f"{_LIMITS} {settings}", 19200, 50, same_bits=False, python=True,
                  misbehaves=misbehaves)


_SOAKED = "gymnasium:soak_env:Soaked-v0"
PPO = _of("python", _SOAKED, "--shards 1", "env_workers=2", misbehaves=True)
RANKS = _of("python, two shards", _SOAKED, "--shards 2", "env_workers=1", misbehaves=True)
IMPALA = recipe("python, impala", f"--algo impala --seed 11 --num-envs 4 --shards 1 --rollout-steps 16 --env {_SOAKED}",
                f"{_LIMITS} env_workers=1 impala.stall_timeout=90", 12800, 190, same_bits=False, python=True,
                misbehaves=True)
AGENTS = _of("python, agents", "pettingzoo:agents_env", "--shards 1", "env_workers=2")
TOGETHER = _of("python, as one", "gymnasium:spaces_env:Nested-v0", "--shards 1", "env_workers=2")

_RESTARTS = ("--set", "env_restarts=20")
_ONE = ("--devices", "cpu")

PYTHON_MODES = (
    Mode("one process, restarts", PPO, "none", flags=(*_ONE, *_RESTARTS), moves=False),
    Mode("one process", PPO, "none", flags=_ONE, moves=False),
    Mode("--ranks 2, restarts", RANKS, "ranks", 2, _RESTARTS, moves=False),
    Mode("--ranks 2", RANKS, "ranks", 2, moves=False),
    Mode("IMPALA, restarts", IMPALA, "none", flags=(*_ONE, *_RESTARTS), moves=False),
    Mode("IMPALA", IMPALA, "none", flags=_ONE, moves=False),
    Mode("several agents, restarts", AGENTS, "none", flags=(*_ONE, *_RESTARTS), moves=False),
    Mode("stepped as one, restarts", TOGETHER, "none", flags=(*_ONE, *_RESTARTS), moves=False),
)


def patient(mode: Mode) -> Mode:
    """Whose steps may take as long as printing a gigabyte does on a busy machine."""
    words = [word.replace(_DEADLINE, "env_deadline_seconds=90") for word in mode.recipe.arguments]
    return replace(mode, recipe=replace(mode.recipe, arguments=tuple(words)))


def restarts(mode: Mode) -> bool:
    return "env_restarts=20" in mode.flags


def _workers(scene: Scene) -> list[int]:
    """A Python that reads its program from its standard input."""
    found = []
    for pid in scene.tree.living():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:3] == [b"-u", b"-"]:
            found.append(pid)
    return sorted(found)


def _worker(scene: Scene) -> int | None:
    scene.ticks.wait(lambda: _workers(scene) or scene.tree.has_ended(), SOMEBODY_WITHIN_S)
    found = _workers(scene)
    return scene.dice.choice(found) if found else None


def _send(number: int):
    def inject(scene: Scene) -> None:
        pid = _worker(scene)
        if pid is not None:
            scene.send_to(pid, number, "a worker")

    return inject


def _kill_all(scene: Scene) -> None:
    _worker(scene)
    for pid in _workers(scene):
        scene.send_to(pid, signal.SIGKILL, "a worker")


def _kill_again(scene: Scene) -> None:
    for _ in range(scene.dice.randint(2, 5)):
        _send(signal.SIGKILL)(scene)
        scene.ticks.wait(scene.tree.has_ended, scene.dice.uniform(0, 1))


def _pause(scene: Scene) -> None:
    """For less than the deadline, by more than a busy machine adds."""
    pid = _worker(scene)
    if pid is not None:
        scene.send_to(pid, signal.SIGSTOP, "a worker")
        scene.ticks.wait(scene.tree.has_ended, scene.dice.uniform(0.05, 0.4 * ENV_DEADLINE_S))
        os.kill(pid, signal.SIGCONT) if pid in scene.tree.living() else None


def _ask(scene: Scene) -> None:
    """What users and schedulers send to all processes of a training is not for workers."""
    _send(scene.dice.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)))(scene)


def _crash(scene: Scene) -> None:
    _send(scene.dice.choice((signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)))(scene)


def _misbehaves(mode: Mode) -> bool:
    return mode.recipe.misbehaves


HARMLESS = ("a worker asked to end", "a worker stopped shortly", "a gigabyte printed", "a program started")
_OF_TRAINING = ("a kill", "SIGTERM", "SIGINT", "a storm of signals", "a full disk", "nobody reads the output")
_MISDEEDS = {
    "an exception": "raise",
    "sys.exit()": "exit",
    "os._exit()": "os_exit",
    "os.abort()": "abort",
    "a hang": "hang",
    "a leak": "leak",
    "another shape": "shape",
    "another type": "dtype",
    "an object": "object",
    "NaN": "nan",
    "infinity": "infinite",
    "a reward that is no number": "reward",
    "a reward that is NaN": "nan_reward",
    "its socket closed": "descriptors",
    "a program started": "program",
}

OF_WORKERS = (
    Kind("a worker killed", _send(signal.SIGKILL), weight=8),
    Kind("all workers killed", _kill_all, weight=5),
    Kind("workers killed again and again", _kill_again, weight=5),
    Kind("a worker crashed", _crash, weight=5),
    Kind("a worker stopped for ever", _send(signal.SIGSTOP), weight=6, once_begun=True),
    Kind("a worker stopped shortly", _pause, weight=4, once_begun=True),
    Kind("a worker asked to end", _ask, weight=4),
    Kind("a gigabyte printed", applies=_misbehaves, weight=6, begins_with_it=True, misdeed="flood", floods=True),
    *(Kind(name, applies=_misbehaves, weight=5, begins_with_it=True, misdeed=misdeed)
      for name, misdeed in _MISDEEDS.items()),
)
PYTHON_KINDS = OF_WORKERS + tuple(kind for kind in KINDS if kind.name in _OF_TRAINING)


def variables(kind: Kind, dice: random.Random) -> dict[str, str]:
    """Of a misdeed: at a random step of a worker, in it or in the reset behind it, once or whenever it comes so far."""
    steps = int(8000 ** dice.random())
    given = {"SOAK_FAULT": kind.misdeed, "SOAK_AT": str(steps)}
    if dice.random() < 0.25:
        given["SOAK_IN"] = "reset"
    if kind.floods or dice.random() < 0.8:
        given["SOAK_ONCE"] = ""  # of a file of the trial
    return given
