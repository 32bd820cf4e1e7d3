"""What a day on a CUDA device found, in the order in which to mend it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from trials import Outcome


class Rank(enum.IntEnum):
    """The first is mended first: a wrong number is worse than none, and none is worse than a late one."""

    WRONG = 0
    FAILED = 1
    MISSED = 2
    SLOW = 3


WORDS = {Rank.WRONG: "wrong", Rank.FAILED: "failed", Rank.MISSED: "target missed", Rank.SLOW: "slower than the CPU"}


@dataclass(frozen=True)
class Finding:
    """`weight` orders findings of one rank: the greater comes first."""

    rank: Rank
    what: str
    evidence: str
    next_step: str
    weight: float = 0


def of_tests(cases: Iterable[dict[str, Any]], program: str) -> list[Finding]:
    """`cases`: those of GoogleTest's report, each with name and failures. A skipped one proves nothing: it failed."""
    found = []
    for case in cases:
        again = f"{program} --gtest_filter={case['name']}"
        if case["failures"]:
            found.append(Finding(Rank.WRONG, f"the test {case['name']}", "; ".join(case["failures"]), again))
        elif case["skipped"]:
            found.append(Finding(Rank.FAILED, f"the test {case['name']}", "it was skipped", again))
    return found


def of_trials(outcomes: Iterable[Outcome]) -> list[Finding]:
    return [finding for outcome in outcomes for finding in _of_trial(outcome)]


def _of_trial(outcome: Outcome) -> list[Finding]:
    failed = next((each.failure for each in outcome.on_device if each.failure), "")
    if failed:
        return [Finding(Rank.FAILED, f"training: {outcome.name}", failed, outcome.command)]
    found = []
    states = {each.state_sha256 for each in outcome.on_device}
    if outcome.same_bits and len(states) > 1:
        evidence = f"the same seed ended in {' and '.join(sorted(state[:12] for state in states))}"
        found.append(Finding(Rank.WRONG, f"training: {outcome.name}", evidence, f"twice: {outcome.command}"))
    if outcome.played:
        found.append(Finding(Rank.FAILED, f"evaluation on the CPU: {outcome.name}", outcome.played, "tandem eval RUN"))
    cpu = outcome.on_cpu
    if cpu is None:
        return found
    if cpu.failure:
        found.append(Finding(Rank.FAILED, f"training on the CPU: {outcome.name}", cpu.failure, outcome.command))
        return found
    device = max(outcome.on_device, key=lambda each: each.env_steps_per_s)
    if device.env_steps_per_s < cpu.env_steps_per_s:
        times = cpu.env_steps_per_s / device.env_steps_per_s
        evidence = (
            f"{device.env_steps_per_s:,.0f} steps/s, on the CPU {cpu.env_steps_per_s:,.0f}: an update learns for "
            f"{device.learn_ms:.1f} ms ({cpu.learn_ms:.1f}) and samples for {device.sample_ms:.1f} ms "
            f"({cpu.sample_ms:.1f})"
        )
        found.append(
            Finding(Rank.SLOW, f"training: {outcome.name}", evidence, f"{outcome.command} --profile", weight=times)
        )
    return found


def of_benches(document: dict[str, Any]) -> list[Finding]:
    """`document`: what bench/run.py writes."""
    found = []
    for bench in document["benches"]:
        again = f"make bench ARGS={bench['name']}"
        if bench["failure"]:
            found.append(Finding(Rank.WRONG, f"the bench {bench['name']}", bench["failure"], again))
        elif bench["not_run"]:
            found.append(Finding(Rank.FAILED, f"the bench {bench['name']}", f"not run: {bench['not_run']}", again))
        for metric in bench["metrics"]:
            if metric["met"] is False:
                evidence = ", ".join(
                    f"{times:.2f} times {other}" for other, times in metric["times_better"].items() if times
                )
                found.append(Finding(Rank.MISSED, f"{bench['name']}: {metric['name']}", evidence, again))
    return found


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """What has one cause, to judge by what it said, is one finding, which is tried again by its first command."""
    by_cause: dict[tuple[Rank, str], list[Finding]] = {}
    for finding in sorted(found, key=lambda finding: (finding.rank, -finding.weight, finding.what)):
        by_cause.setdefault((finding.rank, finding.evidence), []).append(finding)
    return [replace(all_of[0], what=", ".join(each.what for each in all_of)) for all_of in by_cause.values()]
