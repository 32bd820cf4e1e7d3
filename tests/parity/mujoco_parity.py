"""Compares Tandem's MuJoCo tasks with gymnasium's, step by step, on the same libmujoco.

    python mujoco_parity.py path/to/mujoco_trace [--episodes 100] [--steps 40] [--only Ant-v5]

For each task:
  spec       sizes, bounds of actions, time limit, frames a second, and the reward threshold where gymnasium has one
  resets     observations after reset(seed), for 20 seeds: equal to the last bit
  episodes   random actions, each side running on from its own state: observations, rewards, ends and the numbers of
             `info` agree within 1e-9. An episode is cut off after --steps steps, less for the next one to begin
             elsewhere; the first one goes to its time limit or its end
  options    the same with each of six or more options changed, a few episodes each
Exits with 1 and a line per fault when something differs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gymnasium
import mujoco
import numpy

TOLERANCE = 1e-9
SEEDS = [0, 1, 2, 3, 42, 1234, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 7, 2**63 + 11, 2**64 - 1, *range(100, 107)]
FORWARD = [
    {"forward_reward_weight": 2.5},
    {"ctrl_cost_weight": 0.7},
    {"reset_noise_scale": 0.02},
    {"exclude_current_positions_from_observation": False},
    {"frame_skip": 3},
]
HEALTHY = [*FORWARD, {"healthy_reward": 0.3}, {"terminate_when_unhealthy": False}]
SEEN = [
    {f"include_{part}_in_observation": False} for part in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
]
# Options as gymnasium's keywords; ours are the same, but a range is two numbers, NAME_min and NAME_max.
TASKS = {
    "Ant-v5": [
        *HEALTHY,
        {"healthy_z_range": (0.4, 0.7)},
        {"contact_cost_weight": 0.01},
        {"contact_force_range": (-0.5, 0.25)},
        {"main_body": 3},
        {"main_body": "aux_1"},
        {"include_cfrc_ext_in_observation": False},
    ],
    "HalfCheetah-v5": [*FORWARD, {"xml_file": "half_cheetah.xml", "frame_skip": 1}],
    "Hopper-v5": [
        *HEALTHY,
        {"healthy_state_range": (-1.0, 2.0)},
        {"healthy_z_range": (1.2, 1.3)},
        {"healthy_angle_range": (-0.02, 0.02)},
    ],
    "Humanoid-v5": [
        *HEALTHY,
        *SEEN,
        {"contact_cost_weight": 1e-3},
        {"contact_cost_range": (0.1, 0.2)},
        {"healthy_z_range": (1.3, 1.5)},
    ],
    "HumanoidStandup-v5": [
        *SEEN,
        {"uph_cost_weight": 2.0},
        {"ctrl_cost_weight": 0.7},
        {"impact_cost_weight": 1e-3},
        {"impact_cost_range": (0.1, 0.2)},
        {"reset_noise_scale": 0.1},
        {"exclude_current_positions_from_observation": False},
        {"frame_skip": 2},
    ],
    "InvertedDoublePendulum-v5": [
        {"healthy_reward": 3.0},
        {"reset_noise_scale": 0.2},
        {"frame_skip": 2},
        {"reset_noise_scale": 0.0},
        {"healthy_reward": -1.0, "frame_skip": 7},
        {"xml_file": "inverted_double_pendulum.xml"},
    ],
    "InvertedPendulum-v5": [
        {"reset_noise_scale": 0.1},
        {"reset_noise_scale": 0.3},
        {"reset_noise_scale": 0.0},
        {"frame_skip": 1},
        {"frame_skip": 5},
        {"xml_file": "inverted_pendulum.xml"},
    ],
    "Pusher-v5": [
        {"reward_near_weight": 2.0},
        {"reward_dist_weight": 0.3},
        {"reward_control_weight": 1.7},
        {"frame_skip": 2},
        {"reward_near_weight": 0.0, "reward_dist_weight": 0.0},
        {"xml_file": "pusher_v5.xml", "frame_skip": 1},
    ],
    "Reacher-v5": [
        {"reward_dist_weight": 0.3},
        {"reward_control_weight": 1.7},
        {"frame_skip": 1},
        {"frame_skip": 5},
        {"reward_dist_weight": 0.0, "reward_control_weight": 2.5},
        {"xml_file": "reacher.xml"},
    ],
    "Swimmer-v5": [*FORWARD, {"xml_file": "swimmer.xml", "frame_skip": 1}],
    "Walker2d-v5": [*HEALTHY, {"healthy_z_range": (1.2, 1.3)}, {"healthy_angle_range": (-0.02, 0.02)}],
}


def option_texts(options):
    texts = []
    for key, value in options.items():
        if isinstance(value, tuple):
            stem = key.removesuffix("_range")
            texts += [f"{stem}_min={value[0]}", f"{stem}_max={value[1]}"]
        else:
            texts.append(f"{key}={str(value).lower() if isinstance(value, bool) else value}")
    return texts


class Ours:
    """A task behind the program mujoco_trace, with the libmujoco of this Python."""

    def __init__(self, program, name, options):
        variables = os.environ | {"TANDEM_MUJOCO": str(Path(mujoco.__file__).parent)}
        self.process = subprocess.Popen(
            [program, name, *option_texts(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
        )
        self.command("spec")
        words = self.process.stdout.readline().decode().split()
        if not words:
            sys.exit(f"mujoco_trace {name} {option_texts(options)} ended with {self.process.wait()}")
        self.shown, self.actions, self.limit = (int(word) for word in words[:3])
        self.threshold = None if words[3] == "none" else float(words[3])
        self.fps = float(words[4])
        bounds = numpy.array([float(word) for word in words[5 : 5 + 2 * self.actions]])
        self.low, self.high = bounds[: self.actions], bounds[self.actions :]
        self.metrics = words[5 + 2 * self.actions :]

    def command(self, *words):
        self.process.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.process.stdin.flush()

    def numbers(self, count):
        data = self.process.stdout.read(8 * count)
        if len(data) != 8 * count:
            sys.exit(f"mujoco_trace ended early with {self.process.wait()}")
        return numpy.frombuffer(data)

    def reset(self, seed=None):
        self.command(*(["again"] if seed is None else ["reset", seed]))
        return self.numbers(self.shown)

    def step(self, action):
        self.command("step", *(f"{float(x):.9g}" for x in action))
        values = self.numbers(self.shown + 2 + len(self.metrics))
        rest = values[self.shown :]
        return values[: self.shown], rest[0], rest[1] != 0, dict(zip(self.metrics, rest[2:]))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Report:
    """Counts what was compared and keeps the largest difference and the first faults."""

    def __init__(self, subject):
        self.subject, self.compared, self.largest, self.faults = subject, 0, 0.0, []

    def close_to(self, what, ours, theirs, tolerance=TOLERANCE):
        ours, theirs = numpy.asarray(ours, dtype=float), numpy.asarray(theirs, dtype=float)
        same_shape = ours.shape == theirs.shape
        difference = float(numpy.max(numpy.abs(ours - theirs), initial=0)) if same_shape else numpy.inf
        self.compared += 1
        self.largest = max(self.largest, difference)
        if not difference <= tolerance and len(self.faults) < 3:
            self.faults.append(f"{self.subject}: {what}: ours {ours.tolist()}, theirs {theirs.tolist()}")


def compare_spec(report, ours, env):
    report.close_to("bounds below", numpy.float32(ours.low), env.action_space.low, 0.0)
    report.close_to("bounds above", numpy.float32(ours.high), env.action_space.high, 0.0)
    report.close_to("elements", ours.shown, env.observation_space.shape[0], 0.0)
    report.close_to("time limit", ours.limit, env.spec.max_episode_steps, 0.0)
    report.close_to("frames a second", ours.fps, min(env.unwrapped.metadata["render_fps"], 1000), 0.0)
    if env.spec.reward_threshold is None:
        report.close_to("a threshold", ours.threshold is None, True, 0.0)
    else:
        report.close_to("threshold", ours.threshold, env.spec.reward_threshold, 0.0)


def play(report, ours, env, steps, random, at):
    """An episode up to its end or so many steps; how it ended, and how long it was."""
    for step in range(1, steps + 1):
        action = random.uniform(env.action_space.low, env.action_space.high).astype(numpy.float32)
        seen, reward, terminated, metrics = ours.step(action)
        shown, paid, ended, truncated, info = env.step(action)
        report.close_to(f"observation after step {step} {at}", seen, shown)
        report.close_to(f"reward of step {step} {at}", reward, paid)
        report.close_to(f"end in step {step} {at}", terminated, ended, 0.0)
        for name in metrics.keys() & info.keys():
            report.close_to(f"{name} of step {step} {at}", metrics[name], info[name])
        if ended or truncated:
            return "terminated" if ended else "truncated", step
    return "cut", steps


def compare(program, name, options, episodes, steps, resets):
    ours, env = Ours(program, name, options), gymnasium.make(name, **options)
    report = Report(f"{name} {' '.join(option_texts(options))}".rstrip())
    compare_spec(report, ours, env)
    for seed in SEEDS[:resets]:
        report.close_to(f"observation after reset(seed={seed})", ours.reset(seed), env.reset(seed=seed)[0], 0.0)
    random = numpy.random.default_rng(5)
    counts = {"terminated": 0, "truncated": 0, "cut": 0}
    ours.reset(7), env.reset(seed=7)
    played = 0
    for episode in range(episodes):
        if episode > 0:
            report.close_to(f"start of episode {episode}", ours.reset(), env.reset()[0], 0.0)
        most = ours.limit if episode == 0 and not options else 1 + int(random.integers(steps))
        end, length = play(report, ours, env, most, random, f"of episode {episode}")
        counts[end] += 1
        played += length
    ours.close()
    env.close()
    print(f"{report.subject:70s} {played:6d} steps, largest difference {report.largest:.3g}, {counts}")
    return report.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built mujoco_trace")
    parser.add_argument("--episodes", type=int, default=100, help="episodes with default options (default 100)")
    parser.add_argument("--steps", type=int, default=40, help="longest of them, but the first (default 40)")
    parser.add_argument("--only", help="one task")
    arguments = parser.parse_args()
    print(f"gymnasium {gymnasium.__version__}, mujoco {mujoco.mj_versionString()}, numpy {numpy.__version__}")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    program = os.path.abspath(arguments.program)
    os.chdir(tempfile.gettempdir())  # where the Python package may write its MUJOCO_LOG.TXT
    faults = []
    for name, variants in TASKS.items():
        if arguments.only not in (None, name):
            continue
        assert len(variants) >= 6, name
        faults += compare(program, name, {}, arguments.episodes, arguments.steps, len(SEEDS))
        for options in variants:
            faults += compare(program, name, options, 3, arguments.steps, 2)
    for fault in faults:
        print("FAULT", fault)
    print("mujoco parity:", "FAILED" if faults else "ok")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
