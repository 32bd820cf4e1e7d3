"""Compares Tandem's wrappers of environments with those of the gymnasium package of the same names.

    python wrappers_parity.py path/to/wrapper_trace [--steps 600]

Each chain of wrappers is stepped beside gymnasium's, on environments whose free motion is equal to the last bit
(env_parity.py), and on a film of 210 x 160 pixels. Observations, rewards, ends, final observations and the starts of
later episodes must be equal to the last bit, but for Pendulum's rewards, in which NumPy's x ** 2 of a scalar now and
then differs from x * x in the last bit; without cv2, resizing is left out, and said so.

Two differences are meant, and left out here: where an episode ends within skipped frames, MaxAndSkipObservation shows
frames of an earlier step; and StickyAction draws from the environment's generator, so it is given one of its own here.
Exits with 1 and a line per fault when something differs.
"""

import argparse
import json
import subprocess
import sys

import gymnasium
import numpy
from gymnasium import spaces, wrappers

try:
    import cv2
except ImportError:
    cv2 = None

SEEDS = [3, 11, 2**40 + 7]


class Film(gymnasium.Env):
    """The environment of this name in wrapper_trace.cc."""

    observation_space = spaces.Box(0, 255, (210, 160, 3), numpy.uint8)
    action_space = spaces.Discrete(4)

    def __init__(self):
        self.places = numpy.arange(210 * 160 * 3, dtype=numpy.uint64)

    def shown(self):
        factor = numpy.uint64((2654435761 + 2 * self.number) % 2**64)
        pixels = (self.places * factor % numpy.uint64(2**32)) >> numpy.uint64(23)
        return pixels.astype(numpy.uint8).reshape(210, 160, 3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.number = 0, 0
        return self.shown(), {}

    def step(self, action):
        self.number = 5 * self.number + int(action) + 1
        self.steps += 1
        return self.shown(), float(action), self.steps == 9, False, {}


class Sticky(wrappers.StickyAction):
    """StickyAction with the generator that Tandem's wrapper has."""

    generator = None

    @property
    def np_random(self):
        return self.generator


class Channels(gymnasium.ObservationWrapper):
    """gymnasium has no wrapper that moves channels."""

    def observation(self, observation):
        return numpy.moveaxis(observation, -1, 0)


def stacked(env, **padding):
    return wrappers.FrameStackObservation(env, 4, **padding)


# The environment, Tandem's wrappers, gymnasium's, and where sticky actions stand among Tandem's.
CHAINS = [
    ("MountainCar-v0", ["frame_stack=4"], stacked, None),
    ("MountainCar-v0", ["frame_stack=4:zero"], lambda env: stacked(env, padding_type="zero"), None),
    ("MountainCarContinuous-v0", ["frame_skip=3"], lambda env: wrappers.RepeatAction(env, 3), None),
    ("Pendulum-v1", ["frame_skip=4:max"], lambda env: wrappers.MaxAndSkipObservation(env, 4), None),
    ("MountainCar-v0", ["sticky_actions=0.25"], lambda env: Sticky(env, 0.25), 0),
    ("MountainCar-v0", ["time_limit=37"], lambda env: wrappers.TimeLimit(env, 37), None),
    ("Pendulum-v1", ["reward_scale=0.1"], lambda env: wrappers.TransformReward(env, lambda r: r * 0.1), None),
    ("Pendulum-v1", ["reward_clip=-1..-0.5"], lambda env: wrappers.ClipReward(env, -1.0, -0.5), None),
    ("Pendulum-v1", ["reward_clip=sign"], lambda env: wrappers.TransformReward(env, numpy.sign), None),
    ("Pendulum-v1", ["rescale_action"], lambda env: wrappers.RescaleAction(env, -1.0, 1.0), None),
    ("Pendulum-v1", ["rescale_action=-0.3..0.9"], lambda env: wrappers.RescaleAction(env, -0.3, 0.9), None),
    ("MountainCar-v0", ["rescale_observation"], lambda env: wrappers.RescaleObservation(env, -1.0, 1.0), None),
    ("Pendulum-v1", ["rescale_observation=-0.7..2"], lambda env: wrappers.RescaleObservation(env, -0.7, 2.0), None),
    ("MountainCar-v0", ["frame_stack=4", "flatten"], lambda env: wrappers.FlattenObservation(stacked(env)), None),
    (
        "MountainCarContinuous-v0",
        ["rescale_action", "sticky_actions=0.3", "frame_skip=2", "time_limit=41", "reward_clip=0.5", "frame_stack=4"],
        lambda env: stacked(
            wrappers.ClipReward(
                wrappers.TimeLimit(wrappers.RepeatAction(Sticky(wrappers.RescaleAction(env, -1.0, 1.0), 0.3), 2), 41),
                -0.5,
                0.5,
            )
        ),
        1,
    ),
    ("Film-v0", ["grey"], lambda env: wrappers.GrayscaleObservation(env, keep_dim=True), None),
    ("Film-v0", ["channels_first"], Channels, None),
    ("Film-v0", ["resize=84"], lambda env: wrappers.ResizeObservation(env, (84, 84)), None),
    ("Film-v0", ["resize=105x80"], lambda env: wrappers.ResizeObservation(env, (105, 80)), None),
    ("Film-v0", ["resize=70x32"], lambda env: wrappers.ResizeObservation(env, (70, 32)), None),
    ("Film-v0", ["resize=210x61"], lambda env: wrappers.ResizeObservation(env, (210, 61)), None),
    (
        "Film-v0",
        ["frame_skip=2", "grey", "resize=84", "frame_stack=4"],
        lambda env: stacked(
            wrappers.ResizeObservation(wrappers.GrayscaleObservation(wrappers.RepeatAction(env, 2)), (84, 84))
        ),
        None,
    ),
]


class Ours:
    """A group with wrappers behind the program wrapper_trace."""

    def __init__(self, program, name, texts):
        self.process = subprocess.Popen(
            [program, name, str(len(SEEDS)), *texts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, command, values):
        print(command, *values, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"wrapper_trace ended while answering '{command}', exit code {self.process.wait()}")
        return {key: numpy.array(value).reshape(len(SEEDS), -1) for key, value in json.loads(line).items()}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def theirs_of(program, name, wrap, place, seed):
    env = wrap(Film() if name == "Film-v0" else gymnasium.make(name))
    layer = env
    while place is not None and not isinstance(layer, Sticky):
        layer = layer.env
    if place is not None:
        derived = subprocess.run([program, "seed", str(seed), str(place)], capture_output=True, text=True, check=True)
        layer.generator = numpy.random.Generator(numpy.random.PCG64(int(derived.stdout)))
    return env


def compare(program, name, texts, wrap, place, steps):
    faults = []
    ours = Ours(program, name, texts)
    theirs = [theirs_of(program, name, wrap, place, seed) for seed in SEEDS]
    random = numpy.random.default_rng(1)
    compared = 0

    def expect(what, ours_value, theirs_value, tolerance=0.0):
        nonlocal compared
        compared += 1
        ours_value, theirs_value = numpy.ravel(ours_value), numpy.asarray(theirs_value, dtype=float).ravel()
        is_equal = ours_value.shape == theirs_value.shape and numpy.all(abs(ours_value - theirs_value) <= tolerance)
        if not is_equal and len(faults) < 3:
            shown = f"ours {ours_value[:8]}, theirs {theirs_value[:8]}"
            faults.append(f"{name} {texts}: {what}: {shown}")

    seen = ours.ask("reset", SEEDS)
    for e, (env, seed) in enumerate(zip(theirs, SEEDS, strict=True)):
        expect("first observation", seen["observation"][e], env.reset(seed=seed)[0])
    space, ends = theirs[0].action_space, 0
    for step in range(steps):
        if isinstance(space, spaces.Discrete):
            actions = [int(random.integers(space.n)) for _ in theirs]
        else:
            actions = [random.uniform(space.low, space.high).astype(numpy.float32) for _ in theirs]
        is_discrete = isinstance(space, spaces.Discrete)
        seen = ours.ask("step", [a if is_discrete else f"{float(a):.17g}" for a in numpy.ravel(actions)])
        for e, env in enumerate(theirs):
            observation, reward, terminated, truncated, _ = env.step(actions[e])
            at = f"step {step}, environment {e}"
            expect(f"{at}, reward", seen["reward"][e], reward, 1e-9 if name == "Pendulum-v1" else 0.0)
            expect(f"{at}, ends", seen["terminated"][e] * 2 + seen["truncated"][e], 2 * terminated + truncated)
            if terminated or truncated:
                ends += 1
                expect(f"{at}, final observation", seen["final_observation"][e], observation)
                observation, _ = env.reset()
            expect(f"{at}, observation", seen["observation"][e], observation)
    ours.close()
    print(f"{name:26s} {' '.join(texts):60s} {compared:7d} comparisons, {ends} ends, {len(faults)} faults")
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    faults = []
    for name, texts, wrap, place in CHAINS:
        if cv2 is None and any(text.startswith("resize") for text in texts):
            print(f"{name:26s} {' '.join(texts):60s} left out: there is no cv2 in this Python")
            continue
        faults += compare(arguments.program, name, texts, wrap, place, 12 if name == "Film-v0" else arguments.steps)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
