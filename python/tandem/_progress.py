"""How far a training is, where the program's own line would be lost: a notebook's output is no descriptor."""

import sys
import time
from collections.abc import Callable
from typing import Any


def is_own_terminal() -> bool:
    """Whether what the core prints comes to where Python prints."""
    try:
        return sys.stdout.fileno() == 1
    except (AttributeError, OSError, ValueError):
        return False


def shown(on_update: "Callable[[dict[str, Any]], Any] | None") -> Callable[[dict[str, Any]], Any]:
    """`on_update`, and a line that is written anew twice a second."""
    last = 0.0

    def update(line: dict[str, Any]) -> Any:
        nonlocal last
        if time.monotonic() - last >= 0.5:
            last = time.monotonic()
            sys.stdout.write("\r" + text_of(line).ljust(70))
            sys.stdout.flush()
        return on_update(line) if on_update is not None else None

    return update


def text_of(line: dict[str, Any]) -> str:
    mean = line.get("episode_return_mean")
    its = "" if mean is None else f"return {mean:.4g}  "
    return f"{its}{line['env_steps']:,} steps  {line.get('env_steps_per_s') or 0:,.0f}/s"
