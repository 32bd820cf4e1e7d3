"""DD-PPO with ranks of unequal speed: what it brings to end rollouts early, in environment steps a second and in
returns."""

import json
import statistics

from harness.model import Bench, Better, Contender, Metric, Sample, Size, WrongAnswer
from harness.process import run

PREEMPT, WAIT_ALL, TIME_OPTIMAL = "preempt", "wait_all", "time_optimal"
TAILS = {"one rank 4x slower": "slow:2:4", "Pareto": "pareto:2:1.2"}  # of the 2 ms that a step of a group takes
RANKS, STEPS, SEEDS = 8, 200_000, (1, 2, 3)
LOST = "steps/s lost by time_optimal"
RETURN = "return lost"


def rate(tail: str) -> str:
    return f"env steps/s, {tail}"


class DdPpoStragglers(Bench):
    name = "dd_ppo_stragglers"
    question = (
        "Eight ranks, of which one is four times slower or all have heavy-tailed steps: how many environment steps per "
        "second come of each straggler policy, and what is the mean return after as many environment steps?"
    )
    metrics = (
        *(Metric(rate(tail), "1/s", Better.HIGHER, at_least_times={WAIT_ALL: 1.6}) for tail in TAILS),
        *(Metric(f"{LOST}, {tail}", "%", Better.LOWER, at_most=2) for tail in TAILS),
        *(Metric(f"{RETURN}, {tail}", "%", Better.LOWER, at_most=5) for tail in TAILS),
    )

    def contenders(self) -> list[Contender]:
        return [Contender(name, _measured_with_others) for name in (PREEMPT, WAIT_ALL, TIME_OPTIMAL)]

    def round(self, contenders: list[Contender], size: Size) -> dict[str, Sample]:
        samples = {contender.name: Sample({}) for contender in contenders}
        seeds = SEEDS if size is Size.FULL else SEEDS[:1]
        for tail, uneven in TAILS.items():
            runs = {name: [] for name in samples}
            for seed in seeds:  # in turns, since machines change their speed
                for name in samples:
                    runs[name].append(self._train(name, uneven, seed, size))
            mean = lambda name, key: statistics.mean(done[key] for done in runs[name])
            rates = {name: mean(name, "env_steps_per_s") for name in samples}
            returns = {name: mean(name, "episode_return_mean") for name in samples}
            for name, sample in samples.items():
                sample.values[rate(tail)] = rates[name]
                sample.facts[f"returns, {tail}"] = [done["episode_return_mean"] for done in runs[name]]
            judged = samples[PREEMPT].values
            judged[f"{LOST}, {tail}"] = 100 * (1 - rates[TIME_OPTIMAL] / rates[PREEMPT])
            judged[f"{RETURN}, {tail}"] = 100 * (1 - returns[PREEMPT] / returns[WAIT_ALL])
        return samples

    def _train(self, policy: str, uneven: str, seed: int, size: Size) -> dict:
        ranks, steps = (RANKS, STEPS) if size is Size.FULL else (3, 4000)
        folder = self.place.scratch / f"{policy}-{uneven.replace(':', '-')}-{seed}"
        suffix = 0
        while folder.exists():
            suffix += 1
            folder = folder.with_name(f"{folder.name}-{suffix}")
        command = [self.place.programs / "uneven_ranks", "train", "--algo", "dd_ppo", "--env", "UnevenCartPole-v1"]
        command += ["--ranks", ranks, "--stragglers", policy, "--seed", seed, "--total-steps", steps]
        command += ["--run-dir", folder, "--quiet"]
        run(command, environment={"UNEVEN": uneven})
        done = json.loads((folder / "summary.json").read_text())
        if done["env_steps"] < steps:
            raise WrongAnswer(f"{policy} made {done['env_steps']} environment steps instead of {steps}")
        return done


def _measured_with_others(size: Size) -> Sample:
    raise NotImplementedError("policies take their turns together")


BENCH = DdPpoStragglers
