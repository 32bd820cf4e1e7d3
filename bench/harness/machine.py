"""What a result belongs to: the machine, the commit, the versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """Processes that wanted a core in the last minute, on average."""
    return os.getloadavg()[0]


def has_instructions(name: str) -> bool:
    """Whether Linux names this set of instructions, such as avx512_bf16, among those of the processor."""
    flags = (line for line in _cpu_lines() if line.startswith("flags"))
    return name in next(flags, "").split()


def describe_machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "cpu": _cpu_name(),
        "cores": cores(),
        "memory_gb": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def describe_source(root: Path) -> dict[str, Any]:
    """The commit, and whether files differ from it; nulls where there is no git."""
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no") if commit else None
    return {"commit": commit, "changed": None if changed is None else bool(changed)}


def describe_tandem(programs: Path) -> dict[str, Any]:
    done = subprocess.run(
        [programs / "tandem", "version", "--json"], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


def _cpu_name() -> str:
    for line in _cpu_lines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
