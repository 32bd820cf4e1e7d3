"""How a training can be run: what a soak disturbs, and what each mode promises when it is disturbed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PORT = 29500  # each fault has a network of its own
DEADLINE_S, GRACE_S = 2, 2


@dataclass(frozen=True)
class Programs:
    tandem: Path
    standby: Path | None = None
    local_steps: Path | None = None
    plugin: Path | None = None  # tests/process/leaving.cc
    python: Path | None = None  # that steps environments (python_modes.py)


@dataclass(frozen=True)
class Recipe:
    """A training of some seconds: what decides its numbers."""

    name: str
    arguments: tuple[str, ...]
    updates: int
    same_bits: bool = True  # in every run, on any topology, also when it was interrupted
    stops_keep_bits: bool = True  # a checkpoint between two that are due changes nothing
    replicas: int = 2
    plugin: bool = False
    python: bool = False
    misbehaves: bool = False  # the environment does what variables say


@dataclass(frozen=True)
class Mode:
    """`launcher`: none, ranks (--ranks), launch (tandem launch) or variables (RANK, WORLD_SIZE by hand)."""

    name: str
    recipe: Recipe
    launcher: str
    ranks: int = 1
    flags: tuple[str, ...] = ()  # of tandem train
    on_death: str = ""
    example: str = ""  # the program, where it is not tandem train; it has no run folder
    same_bits: bool = True
    moves: bool = True  # a resume may be on another topology
    extra: dict = field(default_factory=dict)

    @property
    def survives(self) -> bool:
        return self.on_death in ("continue", "replace")

    @property
    def has_launcher(self) -> bool:
        return self.launcher in ("ranks", "launch")

    def promises_bits(self, was_stopped: bool) -> bool:
        return self.same_bits and self.recipe.same_bits and (self.recipe.stops_keep_bits or not was_stopped)


def recipe(name: str, words: str, settings: str, steps: int, updates: int, **more) -> Recipe:
    arguments = (*words.split(), "--total-steps", str(steps))
    for setting in ("policy.hidden=16,16 checkpoint.every_updates=10 " + settings).split():
        arguments += ("--set", setting)
    return Recipe(name, arguments, updates, **more)


_CART = "--env CartPole-v1 --seed 11 --shards 4 --num-envs 8 "
_PPO = _CART + "--rollout-steps 32 --epochs 2 --minibatches 2"
PPO = recipe("ppo", _PPO, "", 51200, 200)
DD_PPO = recipe(
    "dd_ppo",
    "--algo dd_ppo --env CartPole-v1 --seed 21 --shards 4 --num-envs 4 --rollout-steps 50 --minibatch-size 40 "
    "--epochs 2",
    "ppo.kl_coef=0.2 ppo.kl_coef_target=0.0005 normalize.observations=true",
    20000,
    100,
)
_THREADS = "impala.batches_per_update=4 impala.stall_timeout=5"
IMPALA = recipe("impala", _CART + "--algo impala --rollout-steps 16", _THREADS, 51200, 190, same_bits=False)
APPO = recipe("appo", _CART + "--algo appo --rollout-steps 16", _THREADS, 25600, 190, same_bits=False)
INLINE = recipe("impala inline", _CART + "--algo impala --rollout-steps 16", _THREADS + " impala.execution=inline",
                 51200, 190, stops_keep_bits=False)  # a checkpoint lets the pipeline run dry
# Full segments of the replay are files that checkpoints share, and rows are overwritten from update 64 on.
SAC = recipe(
    "sac",
    "--algo sac --env Pendulum-v1 --seed 31 --shards 2 --num-envs 8 --rollout-steps 256",
    "sac.replay_size=131072 sac.batch_size=32 sac.train_every=16 sac.learning_starts=4096 sac.priority_alpha=0.6",
    204800,
    100,
)
LOCAL_STEPS = recipe("local_steps", _PPO + " --strategy local_steps", "local_steps.every=3", 51200, 200)
PLUGIN = recipe(
    "plugin",
    "--env Leaving-v0 --seed 11 --shards 2 --num-envs 8 --rollout-steps 64 --epochs 1 --minibatches 1",
    "",
    51200,
    100,
    same_bits=False,  # its environment cannot save its state
    plugin=True,
)

_TAKE_OVER = ("--survivors", "take_over", "--deadline", str(DEADLINE_S))
_SHRINK = ("--survivors", "shrink", "--deadline", str(DEADLINE_S))
_SYNC = ("--strategy", "sync_replicas")
_ASYNC = ("--strategy", "asynchronous")

MODES = (
    Mode("PPO, one process", PPO, "none", flags=("--devices", "cpu:2")),
    Mode("PPO, --ranks 2", PPO, "ranks", 2),
    Mode("PPO, RANK and WORLD_SIZE by hand", PPO, "variables", 2),
    Mode("PPO, by hand, --backend tcp", PPO, "variables", 2, ("--backend", "tcp")),
    Mode("PPO, --ranks 2 --backend tcp", PPO, "ranks", 2, ("--backend", "tcp")),
    Mode("PPO, launch 3, stop", PPO, "launch", 3, on_death="stop"),
    Mode("PPO, launch 3, replace", PPO, "launch", 3, _TAKE_OVER, "replace"),
    Mode("PPO, launch 3, continue", PPO, "launch", 3, _TAKE_OVER, "continue"),
    Mode("DD-PPO, --ranks 2", DD_PPO, "ranks", 2),
    Mode("DD-PPO, by hand", DD_PPO, "variables", 2),
    Mode("DD-PPO, launch 3, replace", DD_PPO, "launch", 3, _TAKE_OVER, "replace"),
    Mode("DD-PPO, launch 3, continue", DD_PPO, "launch", 3, _TAKE_OVER, "continue"),
    Mode("DD-PPO, launch 3, replace, tcp", DD_PPO, "launch", 3, (*_TAKE_OVER, "--backend", "tcp"), "replace"),
    Mode("DD-PPO, shrink, replace", DD_PPO, "launch", 3, _SHRINK, "replace", same_bits=False),
    Mode("IMPALA, one process", IMPALA, "none", flags=("--devices", "cpu")),
    Mode("IMPALA, --ranks 2", IMPALA, "ranks", 2),
    Mode("IMPALA inline, --ranks 2", INLINE, "ranks", 2),
    Mode("APPO, one process", APPO, "none", flags=("--devices", "cpu")),
    Mode("APPO, --ranks 2", APPO, "ranks", 2),
    Mode("SAC, one process", SAC, "none", flags=("--devices", "cpu:2")),
    Mode("SAC, --ranks 2", SAC, "ranks", 2),
    Mode("SAC, by hand", SAC, "variables", 2),
    Mode("sync_replicas, --ranks 2", PPO, "ranks", 2, _SYNC, moves=False),
    Mode("sync_replicas, launch 3, replace", PPO, "launch", 3, (*_SYNC, *_TAKE_OVER), "replace"),
    Mode("asynchronous, --ranks 2", PPO, "ranks", 2, _ASYNC, same_bits=False, moves=False),
    Mode("asynchronous, launch 3, replace", PPO, "launch", 3, (*_ASYNC, *_TAKE_OVER), "replace", same_bits=False),
    Mode("local_steps, one process", LOCAL_STEPS, "none", flags=("--devices", "cpu:2")),
    Mode("local_steps, --ranks 2", LOCAL_STEPS, "ranks", 2),
    Mode("divided, --ranks 2", PPO, "ranks", 2, ("--strategy", "divided")),
    Mode("parameter_server, --ranks 2", PPO, "ranks", 2, ("--strategy", "parameter_server")),
    Mode("a plugin, one process", PLUGIN, "none", flags=("--devices", "cpu")),
    Mode("a plugin, --ranks 2", PLUGIN, "ranks", 2),
    Mode("standby, launch 3, continue", PPO, "launch", 3, on_death="continue", example="standby", same_bits=False),
    Mode("local steps of one's own, replace", PPO, "launch", 3, on_death="replace", example="local_steps",
         same_bits=False),
)


def available(programs: Programs) -> tuple[Mode, ...]:
    def has_its_program(mode: Mode) -> bool:
        return (not mode.example or getattr(programs, mode.example) is not None) and (
            not mode.recipe.plugin or programs.plugin is not None)

    return tuple(mode for mode in MODES if has_its_program(mode))
