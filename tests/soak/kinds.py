"""The kinds of faults: how each is brought about, and in which modes it makes sense."""

from __future__ import annotations

import os
import random
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

import cell
from modes import DEADLINE_S, Mode
from tree import Ticks, Tree, signal_process

SOMEBODY_WITHIN_S = 5.0  # a launcher has to start its ranks first


@dataclass
class Scene:
    """A run under way, and what the fault did to it."""

    mode: Mode
    tree: Tree
    ticks: Ticks
    dice: random.Random
    pipe: int | None = None  # the end at which the run's output is read, if it goes into a pipe
    did: str = ""
    victims: set[int] = field(default_factory=set)
    signals: set[int] = field(default_factory=set)

    def people(self) -> dict[str, int]:
        """The processes that somebody could reach: ranks by their numbers, the launcher, or the only one."""
        found = {f"rank {rank}": pid for rank, pid in sorted(self.tree.ranks().items())}
        if self.mode.launcher == "variables":
            return found
        name = "the launcher" if self.mode.has_launcher else "the process"
        return found | ({name: self.tree.roots[0]} if self.tree.roots[0] not in self.tree.codes else {})

    def send(self, number: int, among: Callable[[str], bool] = lambda name: True) -> str | None:
        """To one of them, when there is one; says to whom."""

        def candidates() -> list[tuple[str, int]]:
            return [(name, pid) for name, pid in self.people().items() if among(name)]

        self.ticks.wait(lambda: candidates() or self.tree.has_ended(), SOMEBODY_WITHIN_S)
        found = candidates()
        if not found:
            return None
        name, pid = self.dice.choice(found)
        self.send_to(pid, number, name)
        return name

    def send_to(self, pid: int, number: int, name: str) -> None:
        if signal_process(pid, number):
            self.victims.add(pid)
            self.signals.add(number)
            self.did += f"{', ' if self.did else ''}{signal.Signals(number).name} to {name}"

    def pid_of(self, name: str) -> int | None:
        return self.people().get(name)


def _is_no_launcher(name: str) -> bool:
    return name != "the launcher"


def kill(scene: Scene) -> None:
    scene.send(signal.SIGKILL, _is_no_launcher)


def kill_two(scene: Scene) -> None:
    kill(scene)
    scene.ticks.wait(scene.tree.has_ended, scene.dice.uniform(0, 1))
    kill(scene)


def kill_launcher(scene: Scene) -> None:
    scene.send(signal.SIGKILL, lambda name: name == "the launcher")


def ask(number: int) -> Callable[[Scene], None]:
    return lambda scene: scene.send(number) and None


def storm(scene: Scene) -> None:
    asked = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    for _ in range(scene.dice.randint(5, 40)):
        scene.send(scene.dice.choice(asked))
        scene.ticks.wait(scene.tree.has_ended, scene.dice.uniform(0, 0.04))
    scene.did = f"a storm of {scene.did.count(' to ')} signals"


def pause(scene: Scene) -> None:
    """For less than the deadline."""
    name = scene.send(signal.SIGSTOP)
    pid = scene.pid_of(name) if name else None
    scene.ticks.wait(scene.tree.has_ended, scene.dice.uniform(0.05, 0.6 * DEADLINE_S))
    if pid:
        scene.send_to(pid, signal.SIGCONT, name)


def pause_launcher(scene: Scene) -> None:
    """For longer than the deadline of ranks that would survive."""
    pid = scene.pid_of("the launcher")
    if pid:
        scene.send_to(pid, signal.SIGSTOP, "the launcher")
        scene.ticks.wait(lambda: False, 2.5 * DEADLINE_S)
        scene.send_to(pid, signal.SIGCONT, "the launcher")


def stop(scene: Scene) -> None:
    """For ever. Where nobody goes on without the rank, the launcher is asked to end."""
    scene.send(signal.SIGSTOP, _is_no_launcher)
    if not scene.mode.survives:
        scene.ticks.wait(scene.tree.has_ended, scene.dice.uniform(0, 1))
        scene.send(signal.SIGTERM, lambda name: name == "the launcher")


def fill_disk(scene: Scene) -> None:
    left = scene.dice.choice((0, 4096, 65536))
    cell.fill_disk(scene.tree.folder, left)
    scene.did = f"the disk is full but for {left} bytes"


def close_reader(scene: Scene) -> None:
    if scene.pipe is not None:
        os.close(scene.pipe)
        scene.pipe = None
        scene.did = "nobody reads its output any more"


def _nothing(scene: Scene) -> None:
    del scene


@dataclass(frozen=True)
class Kind:
    name: str
    inject: Callable[[Scene], None] = _nothing
    applies: Callable[[Mode], bool] = lambda mode: True
    weight: int = 2
    begins_with_it: bool = False  # nothing is done later: the run is started so
    once_begun: bool = False  # not before the first update
    limit: int | None = None
    most: tuple[int, int] = (0, 0)  # of the limit
    points: tuple[str, ...] = ()  # places of base/fault_point.h
    passages: int = 1
    acts: tuple[str, ...] = ()
    misdeed: str = ""  # of the plugin, or of the environment in Python
    floods: bool = False  # the run's output is more than a disk holds


def _trains(mode: Mode) -> bool:
    return not mode.example


_CHECKPOINT = tuple(f"checkpoint.{name}" for name in (
    "set_aside", "begin", "part_written", "before_manifest", "after_manifest", "before_prune", "prune", "pruned"))
_FILE = ("file.open", "file.write", "file.sync", "file.rename", "file.done")
_IMPALA = ("impala.collect", "impala.load", "impala.learn")

KINDS = (
    Kind("a kill", kill, weight=6),
    Kind("two kills", kill_two, lambda mode: mode.ranks > 1),
    Kind("the launcher killed", kill_launcher, lambda mode: mode.has_launcher, 3),
    *(Kind(f"SIG{name}", ask(getattr(signal, f"SIG{name}")), weight=1) for name in ("TERM", "INT", "HUP", "USR1",
                                                                                    "USR2")),
    Kind("a storm of signals", storm, weight=2),
    Kind("a short stop", pause, weight=2),
    Kind("a stop for ever", stop, lambda mode: mode.launcher == "launch" and not mode.example, 2, once_begun=True),
    Kind("the launcher stopped", pause_launcher, lambda mode: mode.has_launcher and _trains(mode), 1, once_begun=True),
    Kind("a full disk", fill_disk, _trains, 3),
    Kind("a limit on file sizes", applies=_trains, begins_with_it=True, limit=resource.RLIMIT_FSIZE,
         most=(256, 200_000), weight=1),
    Kind("few descriptors", begins_with_it=True, limit=resource.RLIMIT_NOFILE, most=(4, 64)),
    Kind("closed streams", applies=_trains, begins_with_it=True, weight=1),
    Kind("nobody reads the output", close_reader, _trains, 1),
    Kind("a checkpoint that fails", applies=_trains, begins_with_it=True, points=_CHECKPOINT, passages=6,
         acts=("kill", "throw")),
    Kind("a file that fails", applies=_trains, begins_with_it=True, points=_FILE, passages=150,
         acts=("kill", "enospc", "throw")),
    Kind("a thread that fails", applies=lambda mode: mode.recipe.name in ("impala", "appo"), begins_with_it=True,
         points=_IMPALA, passages=100, acts=("hang", "throw", "kill")),
    Kind("a plugin that exits", applies=lambda mode: mode.recipe.plugin, begins_with_it=True, misdeed="exit", weight=6),
    Kind("a plugin that _exits", applies=lambda mode: mode.recipe.plugin, begins_with_it=True, misdeed="_exit",
         weight=6),
)
