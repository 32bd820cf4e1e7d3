"""What a run tells its callback after an update, and what the callback may ask of the run in return."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tandem._errors import ConfigError, RunError
from tandem._load import core
from tandem._settings import Setting, keys_of_a_whole_run, refuse, settings_of


class Wishes:
    """What callbacks have asked of a run and was not done yet, from any thread. `core` is what the run looks at."""

    def __init__(self) -> None:
        self.core = core().RunWishes()
        self.lock = threading.RLock()
        self.is_over = False
        self._changes: dict[str, Setting] = {}

    @contextmanager
    def of_run(self) -> Iterator["Wishes"]:
        """Nothing of it is forgotten by a run that ends meanwhile. RunError where it has ended."""
        with self.lock:
            if self.is_over:
                raise RunError("the run that this update belongs to has ended, and nothing can be asked of it any more")
            yield self

    def add(self, changes: list[Setting]) -> None:
        """Within of_run()."""
        self._changes.update((setting[0], setting) for setting in changes)
        self.core.change = True

    def take_changes(self) -> list[Setting]:
        """With which the run is to go on. None of them: it has ended, and nothing can be asked of it from here on."""
        with self.lock:
            taken, self._changes = list(self._changes.values()), {}
            self.core.change = False
            self.is_over = self.core.stop or not taken
            return [] if self.is_over else taken


class Update(dict[str, Any]):
    """The metrics of an update, and None where there is none. What its methods ask for is done after the present update
    of the run. They may be called from any callback and any thread until the run ends. A copy that is sent to another
    process is a plain dict."""

    def __init__(self, metrics: dict[str, Any], wishes: Wishes):
        super().__init__(metrics)
        self._wishes = wishes

    def __reduce__(self) -> "tuple[Any, ...]":
        return dict, (dict(self),)

    def stop(self) -> None:
        """The run ends in order, with a checkpoint, as where a callback returns False."""
        with self._wishes.of_run() as wishes:
            wishes.core.stop = True

    def checkpoint(self) -> None:
        """A checkpoint is written; on_checkpoint hears of it. With several ranks it is that of the next update."""
        with self._wishes.of_run() as wishes:
            wishes.core.checkpoint = True

    def change(self, **options: Any) -> None:
        """The run goes on with other values of options that a resume may change: change(ppo={"clip_range": 0.1}).

        It is saved and goes on from there, as by tandem.resume(): its record has the new values, and environments that
        cannot be saved, such as gymnasium's, begin new episodes. Of several values of an option the last one holds. A
        value at fault is a ConfigError of train(), and the run is saved and stopped. When no update is left to make,
        only more `total_steps` matter. Not for runs of several ranks.
        """
        settings = settings_of(options)
        refuse((key for key, _, _ in settings), "cannot change while the run trains", keys_of_a_whole_run())
        if core().world_size() > 1:
            raise ConfigError("change() is for runs of one rank: the others would not hear of it; use a schedule")
        if settings:
            with self._wishes.of_run() as wishes:
                wishes.add(settings)
