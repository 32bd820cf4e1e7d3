"""Keyword arguments as settings of the option table (tandem/app/config/option_table.h): key, place, texts.

Sections are dicts: ppo={"gamma": 0.98} is ppo.gamma. The table itself finds what is wrong; here values only become the
texts that it reads.
"""

import functools
import json
import numbers
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tandem._errors import ConfigError
from tandem._load import core

Setting = tuple[str, str, "None | str | list[str]"]
# What names code, which is loaded once.
CODE = ("python", "plugins", "plugin_sha256")


@functools.cache
def keys_of_lists() -> frozenset[str]:
    return frozenset(option["key"] for option in core().option_list() if option["is_list"])


@functools.cache
def keys_of_a_whole_run() -> frozenset[str]:
    """What belongs to a run from its start, or to one call."""
    fixed = (its["key"] for its in core().option_list() if not its["at_resume"] or its["lifetime"] == "call")
    return frozenset((*fixed, *CODE))


def settings_of(options: "Mapping[str, Any]") -> list[Setting]:
    """Of train()'s keywords. None is a value, and what is not given is not in `options`."""
    settings: list[Setting] = []
    for key, value in options.items():
        append(settings, key, f"{key}=", value)
    return settings


def refuse(given: "Iterable[str]", why: str, fixed: "Collection[str]") -> None:
    if named := [name for name in given if name in fixed]:
        raise ConfigError(f"{' and '.join(named)} {why}")


def paths_of(plugins: Any) -> list[str]:
    """One path, or several."""
    return [os.fspath(its) for its in ([plugins] if isinstance(plugins, (str, os.PathLike)) else plugins)]


def append(settings: list[Setting], key: str, place: str, value: Any) -> None:
    if isinstance(value, Mapping) and key not in keys_of_lists():
        for name, its in value.items():
            append(settings, f"{key}.{name}", f"{key}={{{name!r}: ...}}", its)
    elif isinstance(value, Mapping):
        settings.append((key, place, pairs_of(value)))
    elif isinstance(value, (list, tuple)) or getattr(value, "ndim", False):
        items = [pairs_of(item) if isinstance(item, Mapping) else [text_of(key, item)] for item in value]
        settings.append((key, place, [item for part in items for item in part]))
    else:
        settings.append((key, place, None if value is None else text_of(key, value)))


def pairs_of(values: "Mapping[str, Any]") -> list[str]:
    """NAME=VALUE of environments and wrappers; None stands for a name alone, as in a file."""
    return [name if value is None else f"{name}={json_text(value)}" for name, value in values.items()]


def json_text(value: Any) -> str:
    """What an environment's option is given: texts as they are, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return json.dumps(value.tolist() if hasattr(value, "tolist") else value)


def env_options_for(env: str, given: Any) -> Any:
    """Workers of environments in Python read options as JSON. A text that would become something else there, such as
    "12", is written as JSON itself and stays a text. The bridge's own options, python.*, are not read so, nor are those
    of other environments."""
    if not core().is_python_env(env):
        return given
    if isinstance(given, Mapping):
        return {name: its if name.startswith("python.") else text_kept(its) for name, its in given.items()}
    if isinstance(given, (list, tuple)):
        return [env_options_for(env, item) if isinstance(item, Mapping) else item for item in given]
    return given


def text_kept(value: Any) -> Any:
    if value is None:
        return "null"
    if not isinstance(value, (str, os.PathLike)):
        return value
    text = str(os.fspath(value))
    return json.dumps(text) if is_read_otherwise(text) else text


def is_read_otherwise(text: str) -> bool:
    """By value_of() of tandem/rl/env/python/worker/task.py."""
    if text in ("True", "False", "None"):
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def with_choice(settings: list[Setting], key: str, place: str, value: str) -> list[Setting]:
    """With a value in the place of None and "auto", which leave it open as not naming the key does."""
    return [*(its for its in settings if its[0] != key or its[2] not in (None, "auto")), (key, place, value)]


def text_of(key: str, value: Any) -> str:
    if hasattr(value, "item"):
        value = value.item()  # numpy's numbers
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return str(os.fspath(value))
    raise ConfigError(f"{key}={value!r}: a value is a number, True, False, None, text, a path, or a list of these")
