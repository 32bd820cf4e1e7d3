"""A training of this process: its callbacks, its progress, and all calls of the core that it consists of."""

import sys
import threading
from collections.abc import Callable
from typing import Any

from tandem._errors import ConfigError
from tandem._load import core
from tandem._progress import Line, is_own_terminal
from tandem._run import NamedCode
from tandem._settings import Setting
from tandem._update import Update, Wishes

Callback = Callable[[dict[str, Any]], Any]
UpdateCallback = Callable[[Update], Any]

# Signals and LibTorch's threads belong to the process, so there is one training at a time. A copy of the process that
# is made meanwhile has the lock as it is.
under_way = threading.Lock()


class Training:
    """What train() and resume() have in common, from the first call of the core to the last change of options.

    with Training(...) as training: training.run(...)
    """

    def __init__(
        self, on_update: "UpdateCallback | None", on_episode: "Callback | None", on_checkpoint: "Callback | None"
    ):
        its = {"on_update": on_update, "on_episode": on_episode, "on_checkpoint": on_checkpoint}
        if wrong := [name for name, one in its.items() if one is not None and not callable(one)]:
            raise ConfigError(f"{' and '.join(wrong)}: a function is wanted, not {its[wrong[0]]!r}")
        self._on_update, self._on_episode, self._on_checkpoint = on_update, on_episode, on_checkpoint
        self._wishes = Wishes()
        self._line: "Line | None" = None

    def __enter__(self) -> "Training":
        if not under_way.acquire(blocking=False):
            raise ConfigError(
                "a training is under way in this process, and there may be one at a time; wait for its end, or start "
                "another process, as by subprocess (a copy that was forked meanwhile may not train either)"
            )
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            if self._line is not None:
                self._line.close()
        finally:
            with self._wishes.lock:
                self._wishes.is_over = True
            under_way.release()

    def run(self, start: Callable[..., str], settings: list[Setting], is_quiet: bool, code: NamedCode) -> str:
        """Calls `start` with the settings and all that the core needs besides; it returns the run's folder. Goes on
        from there with what callbacks have changed. The folder is returned when the run has ended. `code` is named
        again at each call."""
        settings = self._told_where(settings, is_quiet)
        folder = start(settings, *self._calls())
        of_call = [setting for setting in settings if setting[0] in ("quiet", "profile")]
        while changes := self._wishes.take_changes():
            if self._line is not None:
                self._line.expect(changes)
            core().resume(folder, [*changes, *code.settings(), *of_call], *self._calls())
        return folder

    def _told_where(self, settings: list[Setting], is_quiet: bool) -> list[Setting]:
        """The core prints on its own from here on; where that would be lost, it is silent and Python shows a line."""
        if is_own_terminal():
            sys.stdout.flush()
            if not is_quiet:
                return settings
        elif not is_quiet and sys.stdout is not None:
            self._line = Line()
            self._line.expect(settings)
        others = [setting for setting in settings if setting[0] != "quiet"]
        return [*others, ("quiet", "the output of tandem.train()", "true")]

    def _calls(self) -> "tuple[Any, ...]":
        is_main_thread = threading.current_thread() is threading.main_thread()
        return self._listener(), self._on_episode, self._on_checkpoint, self._wishes.core, is_main_thread

    def _listener(self) -> "Callback | None":
        on_update, line, wishes = self._on_update, self._line, self._wishes
        if line is None:
            return None if on_update is None else lambda metrics: on_update(Update(metrics, wishes))

        def show(metrics: dict[str, Any]) -> Any:
            line.show(metrics)
            return None if on_update is None else on_update(Update(metrics, wishes))

        return show
