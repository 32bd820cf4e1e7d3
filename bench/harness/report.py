"""Results as a table for people and as JSON for everything else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from harness.measure import Result
from harness.model import Metric, Summary


def to_json(result: Result) -> dict[str, Any]:
    metrics = []
    for metric in result.metrics:
        numbers = {}
        for contender in result.contenders:
            if (summary := result.summary(contender, metric)) is not None:
                numbers[contender] = {
                    "median": _finite(summary.median),
                    "low": _finite(summary.low),
                    "high": _finite(summary.high),
                    "values": [_finite(value) for value in summary.values],
                }
        metrics.append(
            {
                "name": metric.name,
                "unit": metric.unit,
                "better": metric.better.value,
                "at_most": metric.at_most,
                "at_least_times": dict(metric.at_least_times),
                "met": result.met(metric),
                "contenders": numbers,
                "times_better": {other: _finite(result.ratio(metric, other)) for other in result.contenders[1:]},
            }
        )
    facts = {name: [sample.facts for sample in samples] for name, samples in result.samples.items()}
    return {
        "name": result.name,
        "question": result.question,
        "versions": result.versions,
        "missing": result.missing,
        "failure": result.failure,
        "not_run": result.not_run,
        "metrics": metrics,
        "facts": facts,
    }


def _finite(number: float | None) -> float | None:
    """JSON has no infinity: what never happened is null."""
    return number if number is not None and math.isfinite(number) else None


def table(results: Iterable[Result]) -> str:
    """One line a metric and other contender. `times`: above 1, the first contender is the better one."""
    head = ("bench", "metric", "Tandem", "", "compared with", "", "times", "spread", "target")
    lines = [head]
    for result in results:
        if result.failure:
            lines.append((result.name, "FAILED: " + result.failure.splitlines()[0]) + ("",) * (len(head) - 2))
            continue
        if result.not_run:
            lines.append((result.name, "not run: " + result.not_run) + ("",) * (len(head) - 2))
            continue
        for metric in result.metrics:
            others = [other for other in result.contenders[1:] if result.summary(other, metric) is not None]
            for other in others or [None]:
                lines.append(_line(result, metric, other))
        for peer, why in result.missing.items():
            lines.append((result.name, f"{peer}: {why}") + ("",) * (len(head) - 2))
    return _aligned(lines)


def _line(result: Result, metric: Metric, other: str | None) -> tuple[str, ...]:
    name = result.contenders[0]
    ours = result.summary(name, metric)
    theirs = result.summary(other, metric) if other else None
    ratio = result.ratio(metric, other) if other else None
    spreads = [_spread(summary) for summary in (ours, theirs) if summary]
    return (
        result.name,
        f"{metric.name} [{metric.unit}]",
        _number(ours),
        "" if name == "tandem" else name,
        other if theirs else "",
        _number(theirs),
        _ratio(ratio),
        " / ".join(spreads),
        _target(result, metric, other),
    )


def _target(result: Result, metric: Metric, other: str | None) -> str:
    """The targets that a line is about; the line of a metric that has no other contender is about all."""
    verdict = {True: "met", False: "MISSED", None: "not judged"}
    wanted = []
    if metric.at_most is not None:
        wanted.append(f"<= {metric.at_most:g}: {verdict[result.meets_limit(metric)]}")
    for peer, times in metric.at_least_times.items():
        if other in (None, peer):
            whose = "" if other else f" {peer}"
            wanted.append(f">= {times:.2g} times{whose}: {verdict[result.meets_times(metric, peer)]}")
    return ", ".join(wanted)


def _spread(summary: Summary) -> str:
    return f"{100 * summary.spread:.0f}%" if math.isfinite(summary.high) else "-"


def _number(summary: Summary | None) -> str:
    if summary is None:
        return ""
    if math.isinf(summary.median):
        return "never"
    digits = 0 if abs(summary.median) >= 1000 else 1 if abs(summary.median) >= 100 else 3
    return f"{summary.median:,.{digits}f}".replace(",", " ")


def _ratio(ratio: float | None) -> str:
    if not ratio or not math.isfinite(ratio):
        return ""
    digits = 0 if ratio >= 100 else 1 if ratio >= 10 else 2 if ratio >= 0.1 else 4
    return f"{ratio:.{digits}f}"


def _aligned(lines: list[tuple[str, ...]]) -> str:
    notes = [line for line in lines if line[2:] == ("",) * (len(line) - 2)]  # their second cell may be long
    widths = [max(len(line[i]) for line in lines if i != 1 or line not in notes) for i in range(len(lines[0]))]
    right = {2, 5, 6}
    rows = []
    for line in lines:
        cells = line[:2] if line in notes else line
        rows.append(
            "  ".join(
                cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(cells)
            ).rstrip()
        )
    return "\n".join(rows)
