"""What a run folder says about its run, and what does not belong into it."""

from __future__ import annotations

import json
import re
from pathlib import Path

EXPECTED = re.compile(
    r"\.lock|config\.yaml(\.\d+)?|curve\.png|log\.txt|metrics\.jsonl|status\.json|summary\.json|rollouts\.jsonl|"
    r"checkpoints(/u\d{12}(/(manifest\.json|[a-z0-9_-]+(\.[a-z0-9]+)*\.safetensors))?)?"
)


def _json(file: Path) -> dict:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return {}


def summary(folder: Path) -> dict:
    return _json(folder / "summary.json")


def status(folder: Path) -> str:
    return _json(folder / "status.json").get("state", "")


def has_finished(folder: Path) -> bool:
    return summary(folder).get("end") == "finished"


def updates(folder: Path) -> int:
    """Whole lines of the record so far."""
    try:
        return (folder / "metrics.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def strange_files(folder: Path) -> list[str]:
    """Also folders of checkpoints that are none."""
    found = []
    for entry in sorted(folder.rglob("*")):
        name = str(entry.relative_to(folder))
        if not EXPECTED.fullmatch(name):
            found.append(name)
        elif re.fullmatch(r"checkpoints/u\d{12}", name) and not (entry / "manifest.json").exists():
            found.append(f"{name}, which has no manifest")
    return found


def faults_of_record(folder: Path) -> list[str]:
    """An update has one line, in its order, as far as the summary says."""
    try:
        text = (folder / "metrics.jsonl").read_text()
        numbers = [json.loads(line)["updates"] for line in text.splitlines()]
    except (OSError, ValueError, KeyError) as error:
        return [f"metrics.jsonl: {error}"]
    if numbers != list(range(1, len(numbers) + 1)) or not text.endswith("\n"):
        return [f"metrics.jsonl has not one line an update: {numbers[:3]}...{numbers[-3:]}, {len(numbers)} lines"]
    last = summary(folder).get("updates")
    return [] if last == len(numbers) else [f"metrics.jsonl has {len(numbers)} updates, summary.json {last}"]
