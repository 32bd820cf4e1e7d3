"""The report of a day on a CUDA device, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from findings import WORDS, Finding
from trials import Outcome


def markdown(day: dict[str, Any], found: Sequence[Finding], outcomes: Sequence[Outcome]) -> str:
    """`day`: the parts that gpu_day.py collected, as its JSON has them."""
    parts = [
        _head(day),
        _findings(found, day["left_out"]),
        _tests(day["tests"]),
        _trials(outcomes),
        _benches(day["benches"]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _head(day: dict[str, Any]) -> str:
    facts = [f"{name}: {value}" for name, value in day["machine"].items()]
    return "\n".join(
        [
            "# A day on a CUDA device",
            "",
            f"{day['began']}, {day['seconds']:.0f} s.",
            "",
            *(f"- {each}" for each in facts),
        ]
    )


def _findings(found: Sequence[Finding], left_out: Sequence[str]) -> str:
    lines = ["## What to mend first", ""]
    for number, finding in enumerate(found, 1):
        lines += [
            f"{number}. **{WORDS[finding.rank]}**: {finding.what}",
            "",
            *_indented(finding.evidence),
            f"   Again: `{finding.next_step}`",
            "",
        ]
    if not found:
        lines.append("Nothing that was tried.")
    lines += [f"Not tried: {each}." for each in left_out]
    return "\n".join(lines).rstrip()


def _indented(text: str) -> list[str]:
    return [f"   {line}" for line in text.splitlines()] + [""]


def _tests(tests: dict[str, Any]) -> str:
    if not tests:
        return ""
    cases = tests["cases"]
    bad = sum(bool(case["failures"]) for case in cases)
    skipped = sum(bool(case["skipped"]) for case in cases)
    return f"## Tests\n\n{len(cases)} ran, {bad} failed, {skipped} were skipped, in {tests['seconds']:.0f} s."


def _trials(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    lines = [
        "## Trainings",
        "",
        "Each twice on the device, once on the CPU; steps a second of the faster one, and milliseconds that an update",
        "learns for and samples for.",
        "",
        "| training | device | CPU | times | learn | on the CPU | sample | on the CPU | bits | how |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(lines + [_row(outcome) for outcome in outcomes])


def _row(outcome: Outcome) -> str:
    if any(each.failure for each in outcome.on_device) or outcome.on_cpu is None or outcome.on_cpu.failure:
        return f"| {outcome.name} | failed | | | | | | | | |"
    device = max(outcome.on_device, key=lambda each: each.env_steps_per_s)
    cpu = outcome.on_cpu
    same = len({each.state_sha256 for each in outcome.on_device}) == 1
    bits = "the same" if same else "others" if outcome.same_bits else "others, as promised"
    how = device.said.partition("osses and gradients ")[2].removeprefix("are computed ").replace("|", "/")
    return (
        f"| {outcome.name} | {device.env_steps_per_s:,.0f} | {cpu.env_steps_per_s:,.0f} "
        f"| {device.env_steps_per_s / cpu.env_steps_per_s:.2f} | {device.learn_ms:.2f} | {cpu.learn_ms:.2f} "
        f"| {device.sample_ms:.2f} | {cpu.sample_ms:.2f} | {bits} | {how} |"
    )


def _benches(document: dict[str, Any]) -> str:
    if not document:
        return ""
    lines = [
        "## Benches",
        "",
        "| bench | metric | contender | median | lowest | highest |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for bench in document["benches"]:
        for metric in bench["metrics"]:
            for name, numbers in metric["contenders"].items():
                figures = " | ".join(
                    "never" if numbers[key] is None else f"{numbers[key]:,.1f}" for key in ("median", "low", "high")
                )
                lines.append(f"| {bench['name']} | {metric['name']} ({metric['unit']}) | {name} | {figures} |")
    return "\n".join(lines)
