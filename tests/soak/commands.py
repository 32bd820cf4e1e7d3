"""The command lines of a mode: the run itself, the undisturbed one, and how it is resumed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from modes import DEADLINE_S, GRACE_S, PORT, Mode, Programs, Recipe


@dataclass(frozen=True)
class Start:
    """One process of a run, which may start others."""

    words: list[str]
    variables: dict[str, str] = field(default_factory=dict)


def _code_of(recipe: Recipe, programs: Programs) -> list[str]:
    """What is named again at a resume, since nobody believes a record."""
    if recipe.python:
        return ["--python", str(programs.python)]
    return ["--plugin", str(programs.plugin)] if recipe.plugin else []


def _of_recipe(recipe: Recipe, programs: Programs) -> list[str]:
    return [*recipe.arguments, *_code_of(recipe, programs)]


def undisturbed(recipe: Recipe, programs: Programs, folder: Path) -> list[Start]:
    """In one process; other topologies have its bits."""
    words = [str(programs.tandem), "train", *_of_recipe(recipe, programs), "--run-dir", str(folder)]
    return [Start([*words, "--devices", "cpu:2" if recipe.replicas == 2 else "cpu"])]


def run(mode: Mode, programs: Programs, folder: Path, again: bool = False) -> list[Start]:
    """`again`: the same command, which goes on where the folder's run was."""
    if mode.example == "standby":
        training = [str(programs.standby)]
    elif mode.example == "local_steps":
        training = [str(programs.local_steps), "500", "2"]
    else:
        training = [str(programs.tandem), "train", *_of_recipe(mode.recipe, programs), *mode.flags]
        training += ["--run-dir", str(folder), *(["--resume", "auto"] if again else [])]
        if again and mode.ranks > 1:
            training += ["--devices", "cpu"]  # a resume in between may have recorded others
    return _as_processes(mode, programs, training)


def _as_processes(mode: Mode, programs: Programs, training: list[str]) -> list[Start]:
    if mode.launcher == "launch":
        launch = [str(programs.tandem), "launch", "--ranks", str(mode.ranks), "--grace", str(GRACE_S)]
        return [Start([*launch, "--on-death", mode.on_death, "--", *training])]
    if mode.launcher == "ranks":
        return [Start([*training, "--ranks", str(mode.ranks)])]
    if mode.launcher == "variables":
        place = {"WORLD_SIZE": str(mode.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT)}
        return [Start(training, place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(mode.ranks)]
    return [Start(training)]


def resume(mode: Mode, programs: Programs, folder: Path, dice: random.Random) -> list[Start]:
    """Where the folder has a checkpoint: `tandem resume`, perhaps on another topology, or the same command again."""
    has_checkpoint = any(folder.glob("checkpoints/u*/manifest.json"))
    if not has_checkpoint or dice.random() < 0.4:
        return run(mode, programs, folder, again=True)
    words = [str(programs.tandem), "resume", str(folder), *_code_of(mode.recipe, programs)]
    if mode.moves and mode.recipe.name == "local_steps":  # as many replicas make the same run
        return [Start([*words, *dice.choice([["--devices", "cpu:2"], ["--ranks", "2", "--devices", "cpu"]])])]
    if mode.moves:
        topologies = [["--devices", "cpu"], ["--devices", "cpu:2"], ["--ranks", "2", "--devices", "cpu"]]
        return [Start([*words, *dice.choice(topologies), "--survivors", "end"] if mode.recipe.name in ("ppo", "dd_ppo")
                      else [*words, *dice.choice(topologies)])]
    return _as_processes(mode, programs, [*words, *_topology(mode)])


def _topology(mode: Mode) -> list[str]:
    return list(mode.flags[:2]) if mode.flags[:1] == ("--devices",) else []


PATIENCE_OF_PEERS_S = 4 * DEADLINE_S
