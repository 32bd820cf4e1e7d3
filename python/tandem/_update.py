"""What a run tells its callback after an update, and what the callback may ask of the run in return."""

from typing import Any

from tandem._errors import ConfigError, RunError
from tandem._load import core
from tandem._settings import Setting, settings_of

# What belongs to a run from its start, or to one call.
UNCHANGEABLE = ("env", "run_dir", "quiet", "python", "plugins")


class Wishes:
    """What callbacks have asked of a run and was not done yet. `core` is the part that the run looks at."""

    def __init__(self) -> None:
        self.core = core().RunWishes()
        self.is_over = False
        self.changes: dict[str, Setting] = {}

    def take_changes(self) -> list[Setting]:
        """With which the run is to go on; none where it is to end, or to stay as it is."""
        taken, self.changes = list(self.changes.values()), {}
        self.core.change = False
        return [] if self.core.stop else taken


class Update(dict[str, Any]):
    """The metrics of an update, and None where there is none. Its methods may be called as long as the run trains, from
    any callback and any thread; what they ask for holds after the update that is told of then. A copy of it that was
    sent elsewhere is a plain dict."""

    def __init__(self, metrics: dict[str, Any], wishes: Wishes):
        super().__init__(metrics)
        self._wishes = wishes

    def __reduce__(self) -> "tuple[Any, ...]":
        return dict, (dict(self),)

    def stop(self) -> None:
        """The run ends after this update, in order and with a checkpoint, as where a callback returns False."""
        self._of_run().core.stop = True

    def checkpoint(self) -> None:
        """A checkpoint of this update is written; on_checkpoint hears of it."""
        self._of_run().core.checkpoint = True

    def change(self, **options: Any) -> None:
        """The run goes on with other values of options that a resume may change: change(ppo={"learning_rate": 1e-4}).

        It is saved after this update and goes on from there, as by tandem.resume(): its record has the new values, and
        environments that cannot be saved, such as gymnasium's, begin new episodes. Of several values of an option the
        last one holds. A value at fault is a ConfigError of train(), and the checkpoint is whole.
        """
        wishes = self._of_run()
        if unchangeable := [name for name in UNCHANGEABLE if name in options]:
            raise ConfigError(f"change(): {' and '.join(unchangeable)} cannot change while the run trains")
        if settings := settings_of(options):
            wishes.changes.update((setting[0], setting) for setting in settings)
            wishes.core.change = True

    def _of_run(self) -> Wishes:
        if self._wishes.is_over:
            raise RunError("the run that this update belongs to has ended, and nothing can be asked of it any more")
        return self._wishes
