"""What goes wrong, sorted by who has to act. The classes are those of tandem/base/error.h."""


class Error(Exception):
    """The base of all exceptions that Tandem raises itself."""


class ConfigError(Error, ValueError):
    """One or several faults in what the user asked for. All that were found are reported together."""

    def __init__(self, text: str, faults: "list[str] | None" = None):
        super().__init__(text)
        self.faults: list[str] = [text] if faults is None else list(faults)


class RunError(Error, RuntimeError):
    """Something outside of the program failed during the run; its last checkpoint is whole."""


class EnvError(RunError):
    """An environment raised, or returned what its spaces do not allow."""


class CheckpointError(RunError):
    """A checkpoint or another file of a run folder cannot be written or read."""


class InvariantError(Error, RuntimeError):
    """Tandem itself has a defect. Please report it with the text."""
