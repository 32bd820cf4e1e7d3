"""The exit codes that the documents allow after a fault (docs/signals.md, docs/dd_ppo.md, docs/learner-threads.md)."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

import python_modes
from kinds import Kind
from modes import Mode

KILLED = 128 + signal.SIGKILL
STOPPED, FAILED, WRONG = 130, 3, 2
NOT_LOADED = 127  # the system's loader could not open a library


@dataclass(frozen=True)
class Situation:
    """How it was when the fault came, and how it is at the end."""

    had_begun: bool  # there was an update
    had_started: bool  # there was a log: signals are handled from before that on
    finished: bool  # all updates were made at the end
    signals: set[int] = field(default_factory=set)
    was_asked: bool = False  # ranks that were started by hand were asked to end, since another one had


def codes(mode: Mode, kind: Kind, now: Situation, is_victim: bool, again: bool = False) -> set[int]:
    """Of the process that was started, or of one of them. Code 0 means that the run has finished, or it is wrong.
    `again`: an environment in Python does it whenever it comes so far."""
    allowed = {0} if now.finished else set()
    if now.was_asked:
        allowed |= {STOPPED, 128 + signal.SIGTERM}
    if mode.recipe.python and kind in python_modes.OF_WORKERS:
        return allowed | _after_a_worker(mode, kind, now, again)
    if kind.name in ("a kill", "two kills"):
        return allowed | _after_a_death(mode, now, is_victim)
    if kind.name == "the launcher killed":
        return allowed | {KILLED}
    if kind.name.startswith("SIG") or kind.name == "a storm of signals":
        return allowed | _after_signals(mode, kind, now)
    if kind.name == "a stop for ever":
        return allowed | (set() if mode.survives else {STOPPED, FAILED, KILLED})
    if kind.name == "the launcher stopped":
        return allowed | ({FAILED} if mode.survives else set())
    if kind.name == "a full disk":
        return allowed | {FAILED}
    if kind.limit is not None:
        return allowed | {WRONG, FAILED, NOT_LOADED}
    if kind.misdeed:
        return allowed | ({0} if kind.misdeed == "_exit" and mode.launcher == "none" else {FAILED})
    if kind.points:
        return allowed | {FAILED, KILLED}
    return allowed


def _after_a_death(mode: Mode, now: Situation, is_victim: bool) -> set[int]:
    if mode.launcher == "variables":
        return {KILLED} if is_victim else {FAILED}
    if mode.survives and now.had_begun and not mode.example:
        return set()
    if mode.survives:  # the run ends: the first update had not begun, or a loop of one's own has lost a rank
        return {KILLED, FAILED}
    return {KILLED}


def _after_a_worker(mode: Mode, kind: Kind, now: Situation, again: bool) -> set[int]:
    """The docs' table "What goes wrong" (docs/environments.md)."""
    if kind.name in python_modes.HARMLESS:
        return set()
    if not kind.misdeed and not now.had_started:
        return {WRONG, FAILED}  # it was asked what its environments are, or had not begun
    return set() if python_modes.restarts(mode) and not again else {FAILED}


def _after_signals(mode: Mode, kind: Kind, now: Situation) -> set[int]:
    allowed = {STOPPED}
    if not now.had_started or mode.example:
        allowed |= {128 + number for number in now.signals}
    if kind.name == "a storm of signals":  # the second Ctrl-C kills the ranks
        allowed |= {KILLED, FAILED}
    elif mode.launcher == "variables" and not now.had_started:  # the other rank was being loaded and has died
        allowed |= {FAILED}
    return allowed
