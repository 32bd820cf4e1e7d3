"""Compares Python environments stepped through the bridge with the same ones stepped here, to the last bit.

    python python_parity.py path/to/python_trace

The observations of all steps, rewards, ends, final observations and masks are compared, with episodes that end and
begin anew: 20 trajectories, each of a seed of its own, of environments of packages, and fewer of those of this folder.
Exits with 1 and a line for each environment that differs.
"""

import concurrent.futures
import importlib
import importlib.util
import os
import subprocess
import sys

import gymnasium
import numpy as np

# name for the bridge, environments (and workers), steps, keywords; those of the bridge are for it alone
OF_PACKAGES = [
    ("gymnasium:CartPole-v1", (20, 3), 100, {}),
    ("gymnasium:Acrobot-v1", 20, 60, {}),
    ("gymnasium:MountainCar-v0", 20, 220, {}),
    ("gymnasium:MountainCarContinuous-v0", 20, 60, {}),
    ("gymnasium:Pendulum-v1", 20, 220, {"g": 9.5}),
    ("gymnasium:FrozenLake-v1", 20, 100, {"is_slippery": False, "map_name": "8x8"}),
    ("gymnasium:Blackjack-v1", 20, 60, {}),
    ("gymnasium:Taxi-v4", 20, 220, {}),
    ("gymnasium:CliffWalking-v1", 20, 60, {}),
    ("gymnasium:LunarLander-v3", (20, 2), 100, {}),
    ("gymnasium:BipedalWalker-v3", 20, 60, {}),
    ("gymnasium:minigrid:MiniGrid-Empty-8x8-v0", 20, 50,
     {"max_steps": 40, "python.wrappers": "minigrid.wrappers:ImgObsWrapper"}),
    ("gymnasium:flappy_bird_gymnasium:FlappyBird-v0", 20, 60, {}),
    ("gymnasium:highway_env:highway-v0", (20, 2), 8, {}),
    ("ALE/Pong-v5", 20, 30, {}),
    ("pettingzoo:pettingzoo.butterfly.knights_archers_zombies_v11", 20, 20, {}),
    ("pettingzoo:pettingzoo.butterfly.cooperative_pong_v6", 20, 6, {}),
]
# By which module it is known that the package is there; the others are in gymnasium itself.
PACKAGES = {"minigrid": "minigrid", "flappy_bird_gymnasium": "flappy-bird-gymnasium", "highway_env": "highway-env",
            "pettingzoo": "pettingzoo", "ale_py": "ale-py"}
CASES = [
    ("gymnasium:CartPole-v1", 3, 200, {}),
    ("ALE/Breakout-v5", 3, 120, {"noop_max": 4, "repeat_action_probability": 0.25}),
    ("pettingzoo:agents_env", 3, 60, {}),
    ("pettingzoo:agents_env", (3, 2), 60, {"length": 2}),
    ("gymnasium:spaces_env:Nested-v0", 3, 40, {}),
    ("gymnasium:spaces_env:Nested-v0", 3, 40, {"of_actions": "binary"}),
    ("gymnasium:spaces_env:Nested-v0", 3, 40, {"of_actions": "integers"}),
] + [
    (f"gymnasium:spaces_env:{env}-v0", 3, 60, {"python.vectorization": vectorization, **mode})
    for env in ("Nested", "Masked")
    for vectorization, mode in (
        ("loop", {}), ("auto", {}), ("vector", {"autoreset_mode": "Disabled"}),
        ("vector", {"autoreset_mode": "NextStep"}),
    )
]


def mixed(step, env, element):
    x = (step * 1000003 + env * 8191 + element * 127 + 12345) & 0xFFFFFFFF
    for _ in range(3):
        x = (x * 2654435761 + 40503) & 0xFFFFFFFF
    return x >> 7


def leaves(space, value):
    """The arrays of an observation as they lie in memory, in the order of the spaces."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict):
        return [leaf for key, part in space.spaces.items() for leaf in leaves(part, value[key])]
    if isinstance(space, spaces.Tuple):
        return [leaf for part, its in zip(space.spaces, value) for leaf in leaves(part, its)]
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return [np.asarray(value, dtype=np.int64)]
    is_byte = isinstance(space, spaces.MultiBinary) or space.dtype in (np.uint8, np.bool_)
    is_narrow = space.dtype in (np.float16, np.float32, np.int8, np.int16, np.uint16)
    return [np.asarray(value).astype(np.uint8 if is_byte else np.float32 if is_narrow else np.float64)]


def action(space, step, env, mask, salt=0):
    spaces = gymnasium.spaces

    def choice(number, options):
        return number % options if mask is None else np.flatnonzero(mask)[number % int(np.sum(mask != 0))]

    if isinstance(space, spaces.Discrete):
        return space.start + np.int64(choice(mixed(step, env, salt), int(space.n)))
    count = int(np.prod(space.shape))
    if isinstance(space, spaces.MultiBinary):
        chosen = [mixed(step, env, salt + i) % 2 for i in range(count)]
    elif isinstance(space, spaces.MultiDiscrete):
        chosen = [s + mixed(step, env, salt + i) % n for i, (s, n) in enumerate(zip(space.start.flat, space.nvec.flat))]
    elif space.dtype.kind == "f":
        low = np.where(np.isfinite(space.low), space.low, -1).astype(np.float64).reshape(-1)
        high = np.where(np.isfinite(space.high), space.high, 1).astype(np.float64).reshape(-1)
        shares = [(mixed(step, env, salt + i) % 1001) / 1000 for i in range(count)]
        chosen = [np.float32(low[i] + (high[i] - low[i]) * share) for i, share in enumerate(shares)]
    else:
        chosen = [int(low) + mixed(step, env, salt + i) % int(int(high) - int(low) + 1)
                  for i, (low, high) in enumerate(zip(space.low.flat, space.high.flat))]
    return np.asarray(chosen).astype(space.dtype).reshape(space.shape)


def of_agents(name, count, steps, keywords):
    """The same of PettingZoo's parallel API: one agent after the other."""
    module = importlib.import_module(name.partition(":")[2])
    envs = [module.parallel_env(**keywords) for _ in range(count)]
    names, written, ends = envs[0].possible_agents, [], 0
    told = [env.reset(seed=100 + e) for e, env in enumerate(envs)]
    shown = [dict(observations) for observations, _ in told]
    masks = [dict(infos) for _, infos in told]
    masked = {agent for agent in names if "action_mask" in masks[0].get(agent, {})}

    def mask_of(e, agent):
        options = int(getattr(envs[e].action_space(agent), "n", 0))
        return masks[e].get(agent, {}).get("action_mask", np.ones(options, np.uint8)) if agent in masked else None

    def show():
        for agent in names:
            rows = [leaves(envs[0].observation_space(agent), its[agent]) for its in shown]
            written.extend(np.stack(leaf).tobytes() for leaf in zip(*rows))
            if agent in masked:
                written.append(np.stack([mask_of(e, agent) for e in range(count)]).astype(np.uint8).tobytes())
            written.append(bytes(agent in env.agents for env in envs))

    show()
    for step in range(steps):
        results = []
        for e, env in enumerate(envs):
            acting = {agent: action(env.action_space(agent), step, e, mask_of(e, agent), 1000 * names.index(agent))
                      for agent in env.agents}
            observations, *result, infos = env.step(acting)
            shown[e].update(observations)
            masks[e] = infos
            results.append((result, dict(shown[e])))
            ends += not env.agents
            if not env.agents:
                observations, masks[e] = env.reset()
                shown[e].update(observations)
        show()
        for agent in names:
            told = [[its.get(agent, 0) for its in result] for result, _ in results]
            rewards, terminated, truncated = zip(*told)
            written.append(np.asarray(rewards, dtype=np.float64).tobytes())
            written.append(np.asarray(terminated, dtype=np.uint8).tobytes())
            written.append(np.asarray(truncated, dtype=np.uint8).tobytes())
            for (_, ended, cut), (_, final) in zip(told, results):
                if ended or cut:
                    written.extend(leaf.tobytes() for leaf in leaves(envs[0].observation_space(agent), final[agent]))
    return b"".join(written), ends


def of_atari(name, count, steps, keywords):
    """The same of ale_py's vector environment."""
    importlib.import_module("ale_py")
    env = gymnasium.make_vec(name, count, vectorization_mode="vector_entry_point", autoreset_mode="SameStep",
                             **{"episodic_life": True, **keywords})
    observation, _ = env.reset(seed=np.arange(100, 100 + count))
    written, ends = [observation.tobytes()], 0
    for step in range(steps):
        chosen = np.array([action(env.single_action_space, step, e, None) for e in range(count)])
        observation, rewards, terminated, truncated, infos = env.step(chosen)
        ended = terminated | truncated
        written += [observation.tobytes(), np.asarray(rewards, dtype=np.float64).tobytes(),
                    terminated.astype(np.uint8).tobytes(), truncated.astype(np.uint8).tobytes()]
        written.extend(infos["final_obs"][e].tobytes() for e in np.flatnonzero(ended))
        ends += int(ended.sum())
    env.close()
    return b"".join(written), ends


def trajectory(name, count, steps, keywords):
    """The bytes that python_trace would write."""
    keywords = {key: value for key, value in keywords.items() if not key.startswith("python.")}
    # In this mode the step behind an episode's end begins the next one, whatever its action, and shows its first
    # observation.
    begins_late = keywords.pop("autoreset_mode", "") == "NextStep"
    module, _, env_id = name.partition(":")[2].rpartition(":")
    if module:
        importlib.import_module(module)
    envs = [gymnasium.make(env_id, disable_env_checker=True, **keywords) for _ in range(count)]
    if module == "minigrid":
        envs = [importlib.import_module("minigrid.wrappers").ImgObsWrapper(env) for env in envs]
    space, written, ends, ended = envs[0].observation_space, [], 0, [False] * count
    shown = [env.reset(seed=100 + e) for e, env in enumerate(envs)]

    def show():
        rows = [leaves(space, observation) for observation, _ in shown]
        written.extend(np.stack(leaf).tobytes() for leaf in zip(*rows))
        if shown[0][1].get("action_mask") is not None:
            written.append(np.stack([info["action_mask"] for _, info in shown]).astype(np.uint8).tobytes())

    show()
    for step in range(steps):
        results, finals = [], []
        for e, env in enumerate(envs):
            chosen = action(env.action_space, step, e, shown[e][1].get("action_mask"))
            if ended[e]:
                observation, reward, terminated, truncated, info = env.reset()[0], 0, False, False, {}
                info = {"action_mask": env.unwrapped.mask} if hasattr(env.unwrapped, "mask") else {}
            else:
                observation, reward, terminated, truncated, info = env.step(chosen)
            shown[e] = observation, info
            results.append((reward, terminated, truncated))
            if terminated or truncated:
                finals.extend(leaf.tobytes() for leaf in leaves(space, observation))
                ends += 1
                if not begins_late:
                    shown[e] = env.reset()
            ended[e] = begins_late and (terminated or truncated)
        show()
        rewards, terminated, truncated = zip(*results)
        written.append(np.asarray(rewards, dtype=np.float64).tobytes())
        written.append(np.asarray(terminated, dtype=np.uint8).tobytes())
        written.append(np.asarray(truncated, dtype=np.uint8).tobytes())
        written.extend(finals)
    for env in envs:
        env.close()
    return b"".join(written), ends


def text_of(value):
    return value if isinstance(value, str) else repr(value)


def package_of(name):
    """The module that brings an environment, and what it is installed by."""
    kind, _, rest = name.partition(":")
    module = "ale_py" if kind.startswith("ALE/") else rest.partition(".")[0] if kind == "pettingzoo" else (
        rest.rpartition(":")[0])
    return module, PACKAGES.get(module, "gymnasium")


def through_the_bridge(case):
    name, count, steps, keywords = case
    options = [f"{key}={text_of(value)}" for key, value in keywords.items()]
    count, workers = count if isinstance(count, tuple) else (count, 1)
    words = [sys.argv[1], sys.executable, name, f"{count}/{workers}", str(steps), *options]
    return subprocess.run(words, capture_output=True)


def difference(case, ours):
    """What a line says of it, and whether there is one."""
    name, count, steps, keywords = case
    if ours.returncode != 0:
        return f"python_trace ended with {ours.returncode}: {ours.stderr.decode()}", True
    count = count[0] if isinstance(count, tuple) else count
    kinds = {"pettingzoo": of_agents, "ALE/Breakout-v5": of_atari, "ALE/Pong-v5": of_atari}
    theirs, ends = kinds.get(name.partition(":")[0], trajectory)(name, count, steps, keywords)
    said = f"{count:2d} trajectories, {steps * count:6d} steps, {ends:4d} ends: "
    if ours.stdout == theirs:
        return said + "equal", False
    pairs = enumerate(zip(ours.stdout, theirs))
    at = next((i for i, (a, b) in pairs if a != b), min(len(ours.stdout), len(theirs)))
    return said + f"DIFFERS at byte {at} of {len(ours.stdout)} and {len(theirs)}", True


def main():
    there, faults = [], 0
    for case in OF_PACKAGES:
        module, package = package_of(case[0])
        if not module or importlib.util.find_spec(module):
            there.append(case)
        else:
            print(f"{case[0]}: left out, since {package} is not installed")
    cases = there + CASES
    # Most of the time is spent in workers that start.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for case, ours in zip(cases, threads.map(through_the_bridge, cases)):
            said, is_fault = difference(case, ours)
            faults += is_fault
            keywords = " ".join(f"{key}={text_of(value)}" for key, value in case[3].items())
            print(f"{case[0] + ' ' + keywords:75s} {said}", flush=True)
    packages = sorted({package_of(case[0])[1] for case in there})
    print(f"{len(there)} environments of {len(packages)} packages ({', '.join(packages)}) and {len(CASES)} more cases: "
          + (f"{faults} differ" if faults else "all equal"))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
