"""Training: the program's commands `train` and `resume` as functions."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from tandem._env_names import named, own_python
from tandem._load import core
from tandem._run import NamedCode, Run
from tandem._settings import env_options_for, refuse, settings_of, with_choice
from tandem._training import Callback, Training, UpdateCallback


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
    at once. Raises ConfigError before anything was begun, or for a change of options that a callback has asked for,
    with the run saved and stopped; RunError when the run failed: its last checkpoint is whole.
    """
    if algo is not None:
        options["algo"] = algo
    name = named(env, options)
    if name is not None:
        options["env"] = name
    place = None if config is None else os.fspath(config)
    if "env_options" in options:
        its_env = core().asked_for([], place)["env"] if name is None else name
        options["env_options"] = env_options_for(its_env, options["env_options"])
    with Training(on_update, on_episode, on_checkpoint) as training:
        settings = settings_of(options)
        asked = core().asked_for(settings, place)
        python = asked["python"] or own_python(asked["env"])
        if asked["python"] is None and python is not None:
            settings = with_choice(settings, "python", "the interpreter of tandem.train()", python)
        code = NamedCode(python, tuple(asked["plugins"]))
        folder = training.run(partial(core().train, place), settings, asked["quiet"], code)
        return Run(folder, _named=code)


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
    folder = os.path.abspath(run.folder if isinstance(run, Run) else run)
    refuse(options, "belong to the run from its start; leave them out", ("env", "run_dir"))
    with Training(on_update, on_episode, on_checkpoint) as training:
        settings = settings_of(options)
        asked = core().asked_for(settings, None)
        given = run._named if isinstance(run, Run) else NamedCode()
        settings += [its for its in given.settings() if its[0] not in options]
        code = NamedCode(asked["python"] or given.python, tuple(asked["plugins"]) or given.plugins)
        training.run(partial(core().resume, folder), settings, asked["quiet"], code)
        return Run(folder, _named=code)
