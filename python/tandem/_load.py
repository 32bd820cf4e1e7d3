"""The extension, which is loaded when it is needed first: workers of environments import the package without it."""

import functools
import os
import sys
from typing import Any


@functools.cache
def core() -> Any:
    from tandem import _libtorch

    _libtorch.load()
    from tandem import _core  # type: ignore[attr-defined]  # the extension

    def variable(name: str) -> str:
        return os.environ.get(name, "")

    _core.set_places(
        [sys.executable, "-m", "tandem"],
        variable("TANDEM_MUJOCO"),
        variable("TANDEM_MUJOCO_MODELS"),
        sys.prefix,
        variable("MUJOCO_GL"),
        variable("MUJOCO_EGL_DEVICE_ID"),
    )
    return _core
