"""A bench of one training: Tandem and its peers with the same settings, environment steps per second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.machine import has_instructions
from harness.model import Bench, Better, Contender, Metric, Place, Samples, WrongAnswer
from harness.script_peer import ScriptPeer
from harness.tandem_training import TandemTraining
from harness.training import CARTPOLE, Expected, Settings


@dataclass(frozen=True)
class Peer:
    """How a peer is run. `expected`: where its environment is another one than the bench's; `steps`: where it makes
    fewer."""

    environment: str
    script: str
    packages: tuple[str, ...]
    note: str = ""
    expected: Expected | None = None
    arguments: tuple[str, ...] = ()
    steps: int | None = None


SB3 = Peer("sb3", "sb3_ppo.py", ("stable-baselines3", "torch", "gymnasium"))
CLEANRL = Peer("sb3", "cleanrl_ppo.py", ("torch", "gymnasium"), note="our own script of CleanRL's settings")
SAMPLE_FACTORY = Peer(
    "sf", "sample_factory_ppo.py", ("sample-factory", "torch", "gymnasium"), note="two workers, asynchronous"
)
SB3_NAME, CLEANRL_NAME, SAMPLE_FACTORY_NAME = "stable-baselines3", "cleanrl (own script)", "sample factory"


def script_peer(
    place: Place, name: str, peer: Peer, settings: Settings, expected: Expected, arguments: tuple[str, ...] = ()
) -> ScriptPeer:
    """Throws Unavailable."""
    return ScriptPeer(
        place,
        name,
        peer.environment,
        peer.script,
        settings,
        peer.expected or expected,
        steps=peer.steps,
        arguments=(*peer.arguments, *arguments),
    )


def version_of(made: ScriptPeer, peer: Peer) -> str:
    return ", ".join(filter(None, (made.version(peer.packages), peer.note)))


RLLIB_NAME = "rllib 2.5.1"


def rllib(algorithm: str, note: str, steps: int, learned_return: float) -> Peer:
    """It would take minutes to make as many steps as the others, so it makes `steps`, and has to learn in those."""
    return Peer(
        "ray",
        "rllib_train.py",
        ("ray", "torch", "gymnasium"),
        note=note,
        expected=Expected(lowest_return=1, highest_return=500, learns_after=steps, learned_return=learned_return),
        arguments=("--algo", algorithm),
        steps=steps,
    )


def cleanrl_config(place: Place) -> Path:
    return place.root / "configs" / "cartpole-cleanrl.yaml"


# Values of `compute` besides float32, and the processor's word for what each needs.
INSTRUCTIONS = {"bfloat16": "avx512_bf16", "bfloat16_tiles": "amx_bf16"}


class TrainingBench(Bench):
    settings = Settings()
    expected = CARTPOLE
    time_limit = "terminal"
    # Values of `compute` that Tandem is measured with besides the settings' own, where the processor can.
    computes: tuple[str, ...] = ()
    peers: Mapping[str, Peer] = {}
    at_least_times: Mapping[str, float] = {}

    def __init__(self, place: Place):
        super().__init__(place)
        self.metrics = (
            Metric("env_steps_per_s", "1/s", Better.HIGHER, at_least_times=dict(self.at_least_times)),
        )

    def arguments(self, settings: Settings) -> list[str | Path]:
        """What `tandem train` gets."""
        return [settings.write_config(self.place.scratch, self.time_limit)]

    def contenders(self) -> list[Contender]:
        self.tandem = self._training(self.settings)
        self.scripts: list[ScriptPeer] = []
        makers = {name: lambda name=name, peer=peer: self._peer(name, peer) for name, peer in self.peers.items()}
        return self.with_peers([Contender("tandem", self.tandem.measure), *self._rounded()], makers)

    def _rounded(self) -> list[Contender]:
        can = [compute for compute in self.computes if has_instructions(INSTRUCTIONS[compute])]
        return [
            Contender(f"tandem, {compute}", self._training(replace(self.settings, compute=compute)).measure)
            for compute in can
        ]

    def _training(self, settings: Settings) -> TandemTraining:
        return TandemTraining(self.place, self.arguments(settings), settings, self.expected)

    def _peer(self, name: str, peer: Peer) -> Contender:
        made = script_peer(self.place, name, peer, self.settings, self.expected)
        self.scripts.append(made)
        return Contender(name, made.measure, version_of(made, peer))

    def prepare(self, contenders: list[Contender]) -> None:
        for script in self.scripts:
            script.choose_threads()

    def check(self, samples: Samples) -> None:
        hashes = {sample.facts["state_sha256"] for sample in samples["tandem"]}
        if len(hashes) != 1:
            raise WrongAnswer(f"the same seed ended in different states: {', '.join(sorted(hashes))}")
