"""Tandem: data-parallel reinforcement learning on LibTorch, from Python.

    run = tandem.train(env="CartPole-v1", algo="ppo", total_steps=100_000, devices="cpu:2")
    policy = tandem.load(run.folder)
    action, state = policy.predict(observation)

The program's core does the work; nothing of it is loaded before it is needed.
"""

from tandem._build_facts import VERSION as __version__
from tandem._errors import CheckpointError, ConfigError, EnvError, Error, InvariantError, RunError
from tandem._policy import Evaluation, Policy, evaluate, load
from tandem._run import Run
from tandem._train import resume, train
from tandem._update import Update
from tandem._vector import make_vec

__all__ = [
    "CheckpointError",
    "ConfigError",
    "EnvError",
    "Error",
    "Evaluation",
    "InvariantError",
    "Policy",
    "Run",
    "RunError",
    "Update",
    "__version__",
    "evaluate",
    "load",
    "make_vec",
    "resume",
    "train",
]
