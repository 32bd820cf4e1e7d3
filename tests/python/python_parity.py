"""Compares Python environments stepped through the bridge with the same ones stepped here, to the last bit.

    python python_parity.py path/to/python_trace

The observations of all steps, rewards, ends, final observations and masks of a few environments are compared, with
episodes that end and begin anew. Exits with 1 and a line for each environment that differs.
"""

import importlib
import subprocess
import sys

import gymnasium
import numpy as np

# name for the bridge, environments (and workers), steps, keywords; those of the bridge are for it alone
CASES = [
    ("gymnasium:CartPole-v1", 3, 200, {}),
    ("gymnasium:CartPole-v1", (5, 3), 100, {}),
    ("gymnasium:Acrobot-v1", 2, 60, {}),
    ("gymnasium:MountainCar-v0", 2, 250, {}),
    ("gymnasium:MountainCarContinuous-v0", 2, 60, {}),
    ("gymnasium:Pendulum-v1", 2, 220, {"g": 9.5}),
    ("gymnasium:FrozenLake-v1", 2, 100, {"is_slippery": False, "map_name": "8x8"}),
    ("gymnasium:Blackjack-v1", 2, 60, {}),
    ("gymnasium:Taxi-v4", 2, 250, {}),
    ("gymnasium:CliffWalking-v1", 2, 60, {}),
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


def action(space, step, env, mask):
    spaces = gymnasium.spaces

    def choice(number, options):
        return number % options if mask is None else np.flatnonzero(mask)[number % int(np.sum(mask != 0))]

    if isinstance(space, spaces.Discrete):
        return space.start + np.int64(choice(mixed(step, env, 0), int(space.n)))
    count = int(np.prod(space.shape))
    if isinstance(space, spaces.MultiBinary):
        chosen = [mixed(step, env, i) % 2 for i in range(count)]
    elif isinstance(space, spaces.MultiDiscrete):
        chosen = [s + mixed(step, env, i) % n for i, (s, n) in enumerate(zip(space.start.flat, space.nvec.flat))]
    elif space.dtype.kind == "f":
        low = np.where(np.isfinite(space.low), space.low, -1).astype(np.float64).reshape(-1)
        high = np.where(np.isfinite(space.high), space.high, 1).astype(np.float64).reshape(-1)
        chosen = [np.float32(low[i] + (high[i] - low[i]) * ((mixed(step, env, i) % 1001) / 1000)) for i in range(count)]
    else:
        chosen = [int(low) + mixed(step, env, i) % int(int(high) - int(low) + 1)
                  for i, (low, high) in enumerate(zip(space.low.flat, space.high.flat))]
    return np.asarray(chosen).astype(space.dtype).reshape(space.shape)


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


def main():
    program, faults = sys.argv[1], 0
    for name, count, steps, keywords in CASES:
        options = [f"{key}={text_of(value)}" for key, value in keywords.items()]
        count, workers = count if isinstance(count, tuple) else (count, 1)
        words = [program, sys.executable, name, f"{count}/{workers}", str(steps), *options]
        ours = subprocess.run(words, capture_output=True)
        if ours.returncode != 0:
            print(f"{name}: python_trace ended with {ours.returncode}: {ours.stderr.decode()}")
            faults += 1
            continue
        theirs, ends = trajectory(name, count, steps, keywords)
        same = ours.stdout == theirs
        faults += not same
        pairs = enumerate(zip(ours.stdout, theirs))
        at = next((i for i, (a, b) in pairs if a != b), min(len(ours.stdout), len(theirs)))
        print(f"{name + ' ' + ' '.join(options):75s} {steps * count:6d} steps, {ends:4d} ends: "
              + ("equal" if same else f"DIFFERS at byte {at} of {len(ours.stdout)} and {len(theirs)}"))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
