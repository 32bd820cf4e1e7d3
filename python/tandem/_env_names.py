"""What a user means by an environment, as the core names it."""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from tandem._errors import ConfigError
from tandem._load import core


def named(env: "str | Callable[..., Any] | None", options: dict[str, Any]) -> "str | None":
    """The core's name. Adds to `options` what a function of the user's needs."""
    if env is None or isinstance(env, str):
        return env if env is None else core_name(env, has_plugins="plugins" in options)
    if not callable(env):
        raise ConfigError(
            f"env={env!r}: takes a name, or a function that makes an environment, since each worker makes its own: "
            "env=lambda: MyEnv()"
        )
    from tandem import own_env

    add_env_option(options, own_env.OPTION, own_env.packed(env))
    return own_env.NAME


def core_name(env: str, has_plugins: bool = False) -> str:
    """Names that Tandem has stay; others are those of gymnasium, also as MODULE:ID."""
    if has_plugins or core().has_env(env) or core().is_python_env(env):
        return env
    return f"gymnasium:{env}" if ":" in env or gymnasium_has(env) else env


def gymnasium_has(env: str) -> bool:
    if importlib.util.find_spec("gymnasium") is None:
        return False
    import gymnasium

    return env in gymnasium.registry


def add_env_option(options: dict[str, Any], name: str, value: str) -> None:
    given = options.get("env_options")
    if given is None:
        options["env_options"] = {name: value}
    elif isinstance(given, dict):
        options["env_options"] = {**given, name: value}
    else:
        options["env_options"] = [*([given] if isinstance(given, str) else given), f"{name}={value}"]


def own_python(env: str) -> "str | None":
    """The interpreter that steps an environment, where it is one of Python's."""
    return sys.executable if core().is_python_env(env) else None
