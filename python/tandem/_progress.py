"""How far a training is, where the program's own line would be lost: a notebook's output is no descriptor."""

import sys
import time
from typing import Any


def is_own_terminal() -> bool:
    """Whether what the core prints comes to where Python prints."""
    try:
        return sys.stdout.fileno() == 1
    except (AttributeError, OSError, ValueError):
        return False


class Line:
    """One line, which is written anew twice a second, and a last time at the end."""

    def __init__(self, total_steps: "int | None"):
        self._of_all = "" if total_steps is None else f" of {total_steps:,}"
        self._metrics: "dict[str, Any] | None" = None
        self._written = 0.0

    def show(self, metrics: dict[str, Any]) -> None:
        self._metrics = metrics
        if time.monotonic() - self._written >= 0.5:
            self._write("")

    def close(self) -> None:
        if self._metrics is not None:
            self._write("\n")

    def _write(self, end: str) -> None:
        assert self._metrics is not None
        self._written = time.monotonic()
        mean, speed = (self._metrics.get(name) for name in ("episode_return_mean", "env_steps_per_s"))
        its = "" if mean is None else f"return {mean:.4g}  "
        text = f"{its}{self._metrics['env_steps']:,}{self._of_all} steps  {speed or 0:,.0f}/s"
        sys.stdout.write("\r" + text.ljust(70) + end)
        sys.stdout.flush()
