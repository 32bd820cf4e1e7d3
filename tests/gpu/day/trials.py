"""Short trainings of every kind on a CUDA device, each beside the same training on the CPU."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 120  # of one training; a device's first kernels take seconds to load
DEVICE = "cuda:0"


@dataclass(frozen=True)
class Trial:
    """`same_bits`: the program promises that two such trainings end in the same state."""

    name: str
    steps: int
    arguments: tuple[str, ...]
    same_bits: bool = True

    def words(self) -> list[str]:
        return ["train", *self.arguments, "--total-steps", str(self.steps)]


def _trial(name: str, algo: str, env: str, steps: int, *settings: str, same_bits: bool = True) -> Trial:
    arguments = ["--algo", algo, "--env", env, "--seed", "1"]
    for each in settings:
        arguments += ["--set", each]
    return Trial(name, steps, tuple(arguments), same_bits)


# As the CPU has them where several environments share a step.
WIDE = ("num_envs=64", "policy.hidden=256,256", "ppo.minibatches=4")
LATE = ("num_envs=4",)
TRIALS = (
    _trial("ppo", "ppo", "CartPole-v1", 65_536, *WIDE),
    _trial("ppo by autograd", "ppo", "CartPole-v1", 32_768, *WIDE, "ppo.kernel=off"),
    _trial("ppo, a normal distribution", "ppo", "Pendulum-v1", 32_768, *WIDE),
    _trial("ppo, divided", "ppo", "CartPole-v1", 32_768, *WIDE, "shards=2", "strategy=divided"),
    _trial(
        "ppo, variables on the CPU",
        "ppo",
        "CartPole-v1",
        32_768,
        *WIDE,
        "strategy=parameter_server",
        "parameter_server.variables=cpu",
    ),
    _trial("ppo, an LSTM", "ppo", "MaskedCartPole-v1", 8_192, "num_envs=32"),
    _trial("ppo, images", "ppo", "Catch-v0", 8_192, "num_envs=32"),
    _trial("ppo, several agents", "ppo", "MultiAgentCartPole-v0", 8_192, "num_envs=16"),
    _trial("dd_ppo", "dd_ppo", "CartPole-v1", 32_768, "num_envs=8", "shards=2"),
    _trial("impala", "impala", "CartPole-v1", 32_768, same_bits=False),
    _trial("appo", "appo", "CartPole-v1", 32_768, same_bits=False),
    _trial("sac", "sac", "Pendulum-v1", 3_000, "sac.learning_starts=500", *LATE),
    _trial("sac, of choices", "sac", "CartPole-v1", 3_000, "sac.learning_starts=500", *LATE),
    _trial("td3", "td3", "Pendulum-v1", 3_000, "td3.learning_starts=500", *LATE),
    _trial("ddpg", "ddpg", "Pendulum-v1", 3_000, "td3.learning_starts=500", *LATE),
    _trial("dqn", "dqn", "CartPole-v1", 5_000, "dqn.learning_starts=500", *LATE),
    _trial("dqn, images", "dqn", "Catch-v0", 3_000, "dqn.learning_starts=500", *LATE),
)


@dataclass
class Training:
    """How one training ended. `failure` is empty where it went well."""

    failure: str = ""
    state_sha256: str = ""
    env_steps_per_s: float = 0
    learn_ms: float = 0  # of an update, in the mean over the run's second half
    sample_ms: float = 0
    said: str = ""  # how losses and gradients were computed, as the log has it


@dataclass
class Outcome:
    name: str
    same_bits: bool
    command: str
    on_device: list[Training] = field(default_factory=list)
    on_cpu: Training | None = None
    played: str = ""  # why an evaluation on the CPU of what was trained on the device failed; empty: it did not
    seconds: float = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run_trial(trial: Trial, program: Path, cpus: int, scratch: Path) -> Outcome:
    """Two trainings on the device, whose last one is evaluated on the CPU, and one on the CPU."""
    began = time.monotonic()
    outcome = Outcome(trial.name, trial.same_bits, " ".join(["tandem", *trial.words(), "--devices", DEVICE]))
    folder = scratch / trial.name.replace(",", "").replace(" ", "_")
    for turn in ("once", "again"):
        outcome.on_device.append(train(trial, program, DEVICE, folder / turn))
        if outcome.on_device[-1].failure:
            outcome.seconds = time.monotonic() - began
            return outcome
    outcome.played = _failure([program, "eval", folder / "again", "--episodes", "2"])
    outcome.on_cpu = train(trial, program, f"cpu:{cpus}", folder / "cpu")
    outcome.seconds = time.monotonic() - began
    return outcome


def train(trial: Trial, program: Path, devices: str, folder: Path) -> Training:
    command = [program, *trial.words(), "--devices", devices, "--run-dir", folder, "--quiet"]
    if failure := _failure(command):
        return Training(failure=failure)
    summary = json.loads((folder / "summary.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    later = lines[len(lines) // 2 :]
    log = (folder / "log.txt").read_text() if (folder / "log.txt").exists() else ""
    said = next((line for line in log.splitlines() if "osses and gradients" in line), "")
    return Training(
        state_sha256=summary["state_sha256"],
        env_steps_per_s=summary["env_steps_per_s"],
        learn_ms=_mean(later, "learn_ms"),
        sample_ms=_mean(later, "sample_ms"),
        said=said,
    )


def _mean(lines: Sequence[dict[str, Any]], field_name: str) -> float:
    values = [line[field_name] for line in lines if line.get(field_name) is not None]
    return sum(values) / len(values) if values else 0.0


def _failure(command: Sequence[str | Path]) -> str:
    """Why the command failed, with the end of what it printed; empty where it did not."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"it did not end within {LIMIT_S} s"
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    # An error of LibTorch begins with what is wrong, and ends with a long trace.
    return f"exit code {done.returncode}: " + "\n".join(lines if len(lines) <= 12 else [*lines[:8], "...", *lines[-4:]])
