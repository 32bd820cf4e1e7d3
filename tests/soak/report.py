"""The figures of a soak by mode and by kind of fault, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from judge import COMPLAINTS

HEADS = ("faults", "ended as documented", "hangs", "leftovers", "resumed", "same bits")


def _has(outcome: dict, kind: str) -> bool:
    return any(complaint.startswith(kind + ":") for complaint in outcome["complaints"])


def _row(name: str, outcomes: list[dict]) -> str:
    faults = [outcome for outcome in outcomes if not outcome["late"]]
    resumed = [outcome for outcome in faults if outcome["resumed"] is not None]
    with_bits = [outcome for outcome in faults if outcome["bits"]]
    figures = [
        str(len(faults)),
        str(sum(not _has(outcome, "code") and not _has(outcome, "hang") for outcome in faults)),
        str(sum(_has(outcome, "hang") for outcome in faults)),
        str(sum(_has(outcome, "leftover") for outcome in faults)),
        f"{sum(not _has(outcome, 'resume') and not _has(outcome, 'record') for outcome in resumed)} of {len(resumed)}",
        f"{sum(not _has(outcome, 'bits') for outcome in with_bits)} of {len(with_bits)}" if with_bits else "no promise",
    ]
    return "| " + " | ".join([name, *figures]) + " |"


def table(outcomes: Iterable[dict], key: str) -> str:
    groups: dict[str, list[dict]] = {}
    for outcome in sorted(outcomes, key=lambda each: each["fault"]):
        groups.setdefault(outcome[key], []).append(outcome)
    lines = ["| " + " | ".join([key, *HEADS]) + " |", "| " + " | ".join(["---"] * (1 + len(HEADS))) + " |"]
    lines += [_row(name, groups[name]) for name in sorted(groups)]
    return "\n".join([*lines, _row("all", [each for group in groups.values() for each in group])])


def report(outcomes: Iterable[dict]) -> str:
    outcomes = list(outcomes)
    bad = [outcome for outcome in outcomes if outcome["complaints"]]
    late = sum(outcome["late"] for outcome in outcomes)
    text = f"{table(outcomes, 'mode')}\n\n{table(outcomes, 'kind')}\n\n"
    text += f"{late} more came when the run had ended; they are checked like the others and not counted above.\n"
    kinds = {kind: sum(_has(outcome, kind) for outcome in bad) for kind in COMPLAINTS}
    text += "complaints: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()) + "\n"
    for outcome in sorted(bad, key=lambda each: each["fault"]):
        text += f"\nfault {outcome['fault']}: {outcome['mode']}; {outcome['kind']} {outcome['moment']}"
        text += f" ({outcome['did']}), {outcome['codes']}"
        text += "".join(f"\n  {complaint}" for complaint in outcome["complaints"])
    return text
