"""Environments that are made by a function of the user's: train(env=lambda: MyEnv()).

The function travels as a pickle of cloudpickle's in an option of the environment, so a run folder holds all that a
resume or an evaluation needs. Workers import this module, which registers the name with gymnasium; the extension is not
loaded in them.
"""

import base64
import pickle
import sys
import zlib
from collections.abc import Callable
from typing import Any

NAME = "gymnasium:tandem.own_env:Own-v0"
OPTION = "own_env"


def packed(make: Callable[..., Any]) -> str:
    """Classes of modules are named, and looked up in the worker; those of a script or a notebook are in the text."""
    import cloudpickle  # type: ignore[import-untyped]

    # Where the worker finds the modules that this process finds. A script's own folder is one of the places.
    whole = pickle.dumps((list(sys.path), cloudpickle.dumps(make)))
    return base64.b64encode(zlib.compress(whole, 9)).decode("ascii")


def unpacked(text: str) -> Callable[..., Any]:
    places, its = pickle.loads(zlib.decompress(base64.b64decode(text)))
    sys.path.extend(place for place in places if place and place not in sys.path)
    make: Callable[..., Any] = pickle.loads(its)
    return make


def make_own(own_env: str, **keywords: Any) -> Any:
    """The entry point: an environment of the function in the text, which gets the other options as keywords."""
    # gymnasium.make() hands on what it is asked to draw, if anything.
    if keywords.get("render_mode", "") is None:
        del keywords["render_mode"]
    return unpacked(own_env)(**keywords)


def register() -> None:
    import gymnasium

    if "Own-v0" not in gymnasium.registry:
        gymnasium.register("Own-v0", entry_point="tandem.own_env:make_own")


register()
