"""Compares Tandem's native environments and random generator with the gymnasium and numpy packages.

    python env_parity.py path/to/env_trace [--episodes 100]

For each environment:
  spec      shape and bounds of observations and actions, time limit, and the reward threshold where gymnasium has one
  resets    the state and the observation after reset(seed) are equal to the last bit, for small and large seeds
  steps     100 whole episodes in lockstep, each step from gymnasium's own state: state, observation and reward agree
            within 1e-9, both end flags are equal, and the start state of every following episode is equal to the last
            bit (autoreset draws on from the same generator)
  free      whole episodes, each side running on from its own state: equal to the last bit. Not Acrobot, where NumPy's
            x ** 2 of a scalar now and then differs from x * x in the last bit, and not CartPole, whose sine and cosine
            are polynomials and may differ in the last bit: their motion makes any difference grow without bound
Exits with 1 and a line per fault when something differs.
"""

import argparse
import json
import subprocess
import sys

import gymnasium
import numpy

TOLERANCE = 1e-9
SEEDS = [0, 1, 2, 3, 42, 1234, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 7, 2**63 + 11, 2**64 - 1]
ENVIRONMENTS = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
# A pole that falls multiplies a difference, as a chaotic motion does: no tolerance holds over a whole free episode, and
# "steps" has compared each step within 1e-9.
DIVERGING = {"Acrobot-v1", "CartPole-v1"}


class Ours:
    """A group of `count` environments behind the program env_trace."""

    def __init__(self, program, name, count):
        self.count = count
        self.process = subprocess.Popen(
            [program, name, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, command, values):
        print(command, *values, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"env_trace ended while answering '{command}', exit code {self.process.wait()}")
        return {key: numpy.array(value).reshape(self.count, -1) for key, value in json.loads(line).items()}

    def put(self, env, elapsed, state):
        print("set", env, elapsed, *(f"{float(x):.17g}" for x in state), file=self.process.stdin)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Report:
    """Counts what was compared and keeps the largest difference and the first faults."""

    def __init__(self, subject):
        self.subject, self.compared, self.largest, self.faults = subject, 0, 0.0, []

    def close_to(self, what, ours, theirs, tolerance):
        ours, theirs = numpy.asarray(ours, dtype=float).ravel(), numpy.asarray(theirs, dtype=float).ravel()
        difference = float(numpy.max(numpy.abs(ours - theirs))) if ours.shape == theirs.shape else numpy.inf
        self.compared += 1
        self.largest = max(self.largest, difference)
        if not difference <= tolerance and len(self.faults) < 5:
            self.faults.append(f"{self.subject}: {what}: ours {ours.tolist()}, theirs {theirs.tolist()}")

    def close(self):
        print(f"{self.subject:40s} {self.compared:8d} comparisons, largest difference {self.largest:.3g}")
        return self.faults


def choose(name, env, state, random):
    """An action: every other environment mostly swings or balances, so that all ends of an episode are seen."""
    skilled = env % 2 == 0 and random.random() < 0.95
    if name == "CartPole-v1":
        return int(state[2] + state[3] > 0) if skilled else int(random.integers(2))
    if name in ("Acrobot-v1", "MountainCar-v0"):
        return (2 if state[-1] > 0 else 0) if skilled else int(random.integers(3))
    # Boxes: with the motion, or on, inside and beyond the bounds.
    bound = 2.0 if name == "Pendulum-v1" else 1.0
    if skilled:
        return numpy.float32(bound if state[1] > 0 else -bound)
    if env % 4 == 1:
        return numpy.float32(random.uniform(-0.1, 0.1))
    if random.random() < 0.1:
        return numpy.float32(random.choice([-bound, bound]))
    return numpy.float32(random.uniform(-1.5 * bound, 1.5 * bound))


def text_of(action):
    return str(action) if isinstance(action, int) else f"{float(action):.17g}"


def compare_spec(program, name):
    process = subprocess.run([program, name, "1"], input="spec\n", capture_output=True, text=True, check=True)
    ours, env, report = json.loads(process.stdout), gymnasium.make(name), Report(f"{name} spec")
    finite = lambda bounds: numpy.float32(numpy.clip(numpy.asarray(bounds, dtype=float), -1e38, 1e38))
    seen, action = env.observation_space, env.action_space
    report.close_to("shape of observations", ours["shape"], seen.shape, 0.0)
    # Gymnasium keeps bounds in float32.
    for ours_name, theirs in (("low", seen.low), ("high", seen.high)):
        report.close_to(f"{ours_name} of observations", numpy.float32(ours[ours_name]), finite(theirs), 0.0)
    is_box = isinstance(action, gymnasium.spaces.Box)
    low, high = (action.low, action.high) if is_box else ([0], [action.n - 1])
    report.close_to("lowest action", numpy.float32(ours["action_low"]), low, 0.0)
    report.close_to("highest action", numpy.float32(ours["action_high"]), high, 0.0)
    report.close_to("time limit", ours["limit"], [gymnasium.spec(name).max_episode_steps], 0.0)
    if gymnasium.spec(name).reward_threshold is not None:
        report.close_to("reward threshold", ours["threshold"], [gymnasium.spec(name).reward_threshold], 0.0)
    return report.close()


def compare_resets(program, name):
    seeds = SEEDS + list(range(100, 300))
    report = Report(f"{name} resets")
    ours = Ours(program, name, len(seeds))
    answer = ours.ask("reset", seeds)
    env = gymnasium.make(name)
    for i, seed in enumerate(seeds):
        observation, _ = env.reset(seed=seed)
        report.close_to(f"state after reset(seed={seed})", answer["state"][i], env.unwrapped.state, 0.0)
        report.close_to(f"observation after reset(seed={seed})", answer["observation"][i], observation, 0.0)
    ours.close()
    return report.close()


def compare_episodes(program, name, episodes, inject):
    """Runs whole episodes side by side; with `inject`, each of our steps begins at gymnasium's state."""
    count, random = 20, numpy.random.default_rng(5)
    # A float64 difference within the tolerance can tip one rounding to float32. A reward holds NumPy's scalar x ** 2,
    # which is not always x * x, so it is never compared to the last bit.
    of_state, of_observation = (TOLERANCE, 1e-6) if inject else (0.0, 0.0)
    report = Report(f"{name} {'steps' if inject else 'free'}")
    starts = Report(f"{name} next episodes")
    ours, theirs = Ours(program, name, count), [gymnasium.make(name) for _ in range(count)]
    ours.ask("reset", range(count))
    for i, env in enumerate(theirs):
        env.reset(seed=i)
    elapsed, finished, ended_by = [0] * count, 0, {"terminated": 0, "truncated": 0}
    steps, limit = 0, gymnasium.spec(name).max_episode_steps
    while finished < episodes or steps < limit:
        steps += 1
        if inject:
            for i, env in enumerate(theirs):
                ours.put(i, elapsed[i], env.unwrapped.state)
        actions = [choose(name, i, env.unwrapped.state, random) for i, env in enumerate(theirs)]
        answer = ours.ask("step", map(text_of, actions))
        for i, (env, action) in enumerate(zip(theirs, actions)):
            at = f"environment {i}, episode step {elapsed[i]}, action {action}"
            given = action if isinstance(action, int) else numpy.array([action], dtype=numpy.float32)
            observation, reward, terminated, truncated, _ = env.step(given)
            ended = terminated or truncated
            report.close_to(f"reward of {at}", answer["reward"][i], reward, TOLERANCE)
            report.close_to(f"terminated of {at}", answer["terminated"][i], terminated, 0.0)
            report.close_to(f"truncated of {at}", answer["truncated"][i], truncated, 0.0)
            shown = answer["final_observation" if ended else "observation"][i]
            report.close_to(f"observation of {at}", shown, observation, of_observation)
            elapsed[i] += 1
            if not ended:
                report.close_to(f"state of {at}", answer["state"][i], env.unwrapped.state, of_state)
                continue
            finished += 1
            elapsed[i] = 0
            ended_by["terminated"] += bool(terminated)
            ended_by["truncated"] += bool(truncated)
            first, _ = env.reset()
            starts.close_to(f"start state after {at}", answer["state"][i], env.unwrapped.state, 0.0)
            starts.close_to(f"start observation after {at}", answer["observation"][i], first, 0.0)
    ours.close()
    print(f"{name + ' episodes':40s} {finished:8d} ended: {ended_by}")
    return report.close() + starts.close()


def compare_generator(program):
    report = Report("numpy generator")
    for seed in SEEDS:
        random = numpy.random.Generator(numpy.random.PCG64(numpy.random.SeedSequence(seed)))
        expected = [int(x) for x in random.bit_generator.random_raw(4)]
        expected += [int(random.integers(0, 10)) for _ in range(20)]
        expected += [int(random.integers(-7, 3 << 30)) for _ in range(20)]
        expected += [int(random.integers(0, 1 << 32)) for _ in range(3)]
        expected += [int(random.integers(-(1 << 62), 3 << 60)) for _ in range(20)]
        expected += [int(place) for place in random.permutation(100)]
        expected += [int(random.integers(4, 5))]
        reals = [draw for _ in range(10) for draw in (random.random(), random.uniform(-0.05, 0.05))]
        reals += random.normal(0, 3, 5000).tolist()
        output = subprocess.run([program, "random", str(seed)], capture_output=True, text=True, check=True).stdout
        whole, real = output.splitlines()
        if [int(x) for x in whole.split()] != expected:
            report.faults.append(f"numpy generator: integers of seed {seed}: ours {whole.split()}, theirs {expected}")
        report.close_to(f"reals of seed {seed}", [float(x) for x in real.split()], reals, 0.0)
    return report.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built env_trace")
    parser.add_argument("--episodes", type=int, default=100, help="whole episodes an environment (default 100)")
    arguments = parser.parse_args()
    print(f"gymnasium {gymnasium.__version__}, numpy {numpy.__version__}")
    faults = compare_generator(arguments.program)
    for name in ENVIRONMENTS:
        faults += compare_spec(arguments.program, name)
        faults += compare_resets(arguments.program, name)
        faults += compare_episodes(arguments.program, name, arguments.episodes, inject=True)
        if name not in DIVERGING:
            faults += compare_episodes(arguments.program, name, arguments.episodes, inject=False)
    for fault in faults:
        print("FAULT", fault)
    print("env parity:", "FAILED" if faults else "ok")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
