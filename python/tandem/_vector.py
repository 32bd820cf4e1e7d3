"""Tandem's environments as a vector environment of gymnasium's."""

import os
from typing import Any

from tandem._env_names import core_name, own_python
from tandem._errors import ConfigError
from tandem._settings import env_options_for, pairs_of


def make_vec(
    env: str,
    num_envs: int = 1,
    *,
    copy: bool = True,
    env_options: "dict[str, Any] | None" = None,
    env_wrappers: "dict[str, Any] | list[str] | None" = None,
    plugins: "list[str] | None" = None,
) -> Any:
    """`num_envs` environments that are stepped together by the core, as a gymnasium.vector.VectorEnv.

    An episode that ends begins anew in the same step (AutoresetMode.SAME_STEP); its last observation is in
    `infos["final_obs"]`. `copy=False`: observations are views of memory that the next step writes to. `env_options` and
    `env_wrappers` are those of `tandem envs NAME`.
    """
    if num_envs < 1:
        raise ConfigError(f"num_envs is {num_envs}; it must be at least 1")
    name = core_name(env, has_plugins=bool(plugins))
    from tandem._group_env import GroupVectorEnv

    return GroupVectorEnv(
        name,
        num_envs,
        copy,
        pairs_of(env_options_for(name, env_options or {})),
        pairs_of(env_wrappers) if isinstance(env_wrappers, dict) else list(env_wrappers or []),
        [os.fspath(plugin) for plugin in plugins or []],
        own_python(name),
    )
