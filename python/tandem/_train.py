"""Training: the program's commands `train` and `resume` as functions."""

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from tandem._env_names import named, own_python
from tandem._errors import ConfigError
from tandem._load import core
from tandem._progress import is_own_terminal, shown
from tandem._run import Run
from tandem._settings import settings_of
from tandem._update import Update, Wishes

Callback = Callable[[dict[str, Any]], Any]
UpdateCallback = Callable[[Update], Any]


def train(
    env: "str | Callable[..., Any] | None" = None,
    algo: "str | None" = None,
    *,
    config: "str | os.PathLike[str] | None" = None,
    on_update: "UpdateCallback | None" = None,
    on_episode: "Callback | None" = None,
    on_checkpoint: "Callback | None" = None,
    **options: Any,
) -> Run:
    """Trains until all steps are made, and returns the run.

    `env`: a name, or a function that makes an environment of gymnasium's, which worker processes call. `config`: a YAML
    file as of the program; what is given here wins. `options` are those of `tandem train --help`, sections as dicts:
    `ppo={"gamma": 0.98}`.

    `on_update` is called after each update with its metrics, an Update, which can also be asked to stop, to save and to
    change options; `on_episode` with each episode that has ended, `on_checkpoint` with each checkpoint that is whole on
    the disk. The training waits meanwhile. Where one of them returns False, the run ends in order, with a checkpoint.
    What one raises ends the run and comes out of here.

    Ctrl-C ends the run after its update, with a checkpoint, and raises KeyboardInterrupt; a second one ends the process
    at once. Raises ConfigError before anything was begun, RunError when the run failed: its last checkpoint is whole.
    """
    if algo is not None:
        options["algo"] = algo
    name = named(env, options)
    if name is not None:
        options["env"] = name
    place = None if config is None else os.fspath(config)
    settings = settings_of(options)
    asked = core().asked_for(settings, place)
    if asked["python"] is None and (python := own_python(asked["env"])) is not None:
        settings.append(("python", "the interpreter of tandem.train()", python))
    wishes = Wishes()
    calls = (prepared(on_update, wishes, settings, asked["quiet"]), on_episode, on_checkpoint, wishes.core)
    folder = core().train(settings, place, *calls, is_main_thread())
    return changed(folder, settings, calls, wishes)


def resume(
    run: "str | os.PathLike[str] | Run",
    *,
    on_update: "UpdateCallback | None" = None,
    on_episode: "Callback | None" = None,
    on_checkpoint: "Callback | None" = None,
    **options: Any,
) -> Run:
    """Goes on with a run from its last checkpoint, with its recorded options. `options`: those that a resume may change
    (`tandem resume --help`), such as `total_steps`. All else is as of train()."""
    folder = os.fspath(run.folder if isinstance(run, Run) else run)
    if "env" in options or "run_dir" in options:
        raise ConfigError("env and run_dir belong to the run from its start; leave them out")
    settings = settings_of(options)
    wishes = Wishes()
    calls = (prepared(on_update, wishes, settings, bool(options.get("quiet"))), on_episode, on_checkpoint, wishes.core)
    core().resume(folder, settings, *calls, is_main_thread())
    return changed(folder, settings, calls, wishes)


def changed(folder: str, settings: list[Any], calls: "tuple[Any, ...]", wishes: Wishes) -> Run:
    """The run, when it has gone on with all options that callbacks have changed."""
    of_calls = [setting for setting in settings if setting[0] == "quiet"]
    while changes := wishes.take_changes():
        core().resume(folder, changes + of_calls, *calls, is_main_thread())
    return Run(folder)


def prepared(
    on_update: "UpdateCallback | None", wishes: Wishes, settings: list[Any], is_quiet: bool
) -> "Callback | None":
    """The core prints on its own from here on; where that would be lost, it is silent and Python shows a line."""
    listener = None if on_update is None else lambda metrics: on_update(Update(metrics, wishes))
    if is_quiet or is_own_terminal():
        sys.stdout.flush()
        return listener
    settings[:] = [setting for setting in settings if setting[0] != "quiet"]
    settings.append(("quiet", "the output of tandem.train()", "true"))
    return shown(listener)


def is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
