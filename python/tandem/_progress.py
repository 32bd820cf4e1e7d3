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

    def __init__(self) -> None:
        self._total: "int | None" = None
        self._metrics: "dict[str, Any] | None" = None
        self._written = 0.0

    def expect(self, settings: "list[Any]") -> None:
        """Takes the steps of the run from its settings, where these say them."""
        for key, _, text in settings:
            if key == "total_steps" and isinstance(text, str) and text.isdigit():
                self._total = int(text)

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
        sys.stdout.write("\r" + text_of(self._metrics, self._total).ljust(80) + end)
        sys.stdout.flush()


def text_of(metrics: dict[str, Any], total: "int | None") -> str:
    mean, steps, speed = metrics.get("episode_return_mean"), metrics["env_steps"], metrics.get("env_steps_per_s")
    parts = ["" if mean is None else f"return {mean:.4g}  "]
    parts.append(f"{steps:,} steps" if total is None else f"{steps:,} of {total:,} steps")
    if speed:
        parts.append(f"  {speed:,.0f}/s")
    if speed and total is not None:
        minutes, seconds = divmod(max(0, round((total - steps) / speed)), 60)
        parts.append(f"  {minutes}:{seconds:02} left")
    return "".join(parts)
