"""What a run tells its callback after an update, and what the callback may ask of the run in return."""

from typing import Any

from tandem._load import core
from tandem._settings import settings_of


class Wishes:
    """What callbacks have asked of a run and was not done yet. `core` is the part that the run looks at."""

    def __init__(self) -> None:
        self.core = core().RunWishes()
        self.changes: list[Any] = []

    def take_changes(self) -> list[Any]:
        """Settings with which the run is to go on; none where it is to end, or to stay as it is."""
        taken, self.changes = self.changes, []
        self.core.change = False
        return [] if self.core.stop else taken


class Update(dict[str, Any]):
    """The metrics of an update, and None where there is none. Its methods may be called until the next one."""

    def __init__(self, metrics: dict[str, Any], wishes: Wishes):
        super().__init__(metrics)
        self._wishes = wishes

    def stop(self) -> None:
        """The run ends after this update, in order and with a checkpoint, as where a callback returns False."""
        self._wishes.core.stop = True

    def checkpoint(self) -> None:
        """A checkpoint of this update is written; on_checkpoint hears of it."""
        self._wishes.core.checkpoint = True

    def change(self, **options: Any) -> None:
        """The run goes on with other values of options that a resume may change: change(ppo={"learning_rate": 1e-4}).

        It is saved after this update and goes on from there, as by tandem.resume(): its record has the new values, and
        environments that cannot be saved, such as gymnasium's, begin new episodes. A value at fault is a ConfigError
        of train(), and the checkpoint is whole.
        """
        self._wishes.changes += settings_of(options)
        self._wishes.core.change = True
