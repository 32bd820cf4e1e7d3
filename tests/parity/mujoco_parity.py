"""Compares Tandem's MuJoCo tasks with gymnasium's, step by step, on the same libmujoco.

    python mujoco_parity.py path/to/mujoco_trace [--episodes 100] [--steps N] [--only Ant-v5]

For each task:
  spec       sizes, bounds of actions, time limit, frames a second, and the reward threshold where gymnasium has one
  resets     observations after reset(seed), for 20 seeds: equal to the last bit
  episodes   random actions, each side running on from its own state up to the episode's end: observations, rewards,
             ends and the numbers of `info` agree within 1e-9
  options    the same with each of six or more options changed, a few short episodes each
  pictures   equal to the last bit, where there is OpenGL without a screen; gymnasium is told to use the model's camera
             "track", where there is one
Exits with 1 and a line per fault when something differs.

Episodes are played by as many processes as there are cores, in parts, each with a seed of its own.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import gymnasium  # noqa: E402
import mujoco  # noqa: E402
import numpy  # noqa: E402

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
            raise RuntimeError(f"mujoco_trace {name} {option_texts(options)} ended with {self.process.wait()}")
        self.shown, self.actions, self.limit = (int(word) for word in words[:3])
        self.threshold = None if words[3] == "none" else float(words[3])
        self.fps = float(words[4])
        bounds = numpy.array([float(word) for word in words[5 : 5 + 2 * self.actions]])
        self.low, self.high = bounds[: self.actions], bounds[self.actions :]
        self.metrics = words[5 + 2 * self.actions :]

    def command(self, *words, data=b""):
        self.process.stdin.write((" ".join(str(word) for word in words) + "\n").encode() + data)
        self.process.stdin.flush()

    def numbers(self, count):
        data = self.process.stdout.read(8 * count)
        if len(data) != 8 * count:
            raise RuntimeError(f"mujoco_trace ended early with {self.process.wait()}")
        return numpy.frombuffer(data)

    def reset(self, seed=None):
        self.command(*(["again"] if seed is None else ["reset", seed]))
        return self.numbers(self.shown)

    def begin_play(self, actions):
        """Takes these actions, as many as the episode has; played() waits for them."""
        self.command("play", len(actions), data=actions.tobytes())

    def played(self):
        width = self.shown + 2 + len(self.metrics)
        rows = self.numbers(width * int(self.numbers(1)[0])).reshape(-1, width)
        numbers = {name: rows[:, self.shown + 2 + i] for i, name in enumerate(self.metrics)}
        return {"observation": rows[:, : self.shown], "reward": rows[:, self.shown], "end": rows[:, self.shown + 1]} | {
            f"info {name}": values for name, values in numbers.items()
        }

    def picture(self):
        self.command("picture")
        height, width = (int(number) for number in self.numbers(2))
        return numpy.frombuffer(self.process.stdout.read(3 * height * width), numpy.uint8).reshape(height, width, 3)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Report:
    """Counts what was compared and keeps the largest differences and the first faults."""

    def __init__(self, subject):
        self.subject, self.faults = subject, []
        self.steps, self.longest, self.ends = 0, 0, {"terminated": 0, "truncated": 0, "cut": 0}
        self.largest = {}  # by what was compared

    def close_to(self, what, ours, theirs, tolerance=TOLERANCE, of=""):
        """Arrays have a row for each step, or are of one."""
        ours, theirs = numpy.asarray(ours, dtype=float), numpy.asarray(theirs, dtype=float)
        differences = numpy.abs(ours - theirs) if ours.shape == theirs.shape else numpy.array(numpy.inf)
        difference = float(numpy.max(differences, initial=0))
        self.largest[what] = max(self.largest.get(what, 0.0), difference)
        if difference <= tolerance or len(self.faults) >= 3:
            return
        if ours.shape != theirs.shape:
            self.faults.append(f"{self.subject}: {what} {of}: ours has {ours.shape}, theirs {theirs.shape}")
            return
        first = tuple(int(i) for i in numpy.argwhere(~(differences <= tolerance))[0])
        self.faults.append(f"{self.subject}: {what} {of}, at {first}: ours {ours[first]}, theirs {theirs[first]}")

    def add(self, other):
        self.faults = (self.faults + other.faults)[:3]
        self.steps += other.steps
        self.longest = max(self.longest, other.longest)
        for end, count in other.ends.items():
            self.ends[end] += count
        for what, difference in other.largest.items():
            self.largest[what] = max(self.largest.get(what, 0.0), difference)

    def line(self):
        what = max(self.largest, key=self.largest.get)
        if not self.steps:
            return f"{self.subject:65s} largest difference {self.largest[what]:.3g}"
        ends = ", ".join(f"{count} {end}" for end, count in self.ends.items() if count)
        return (
            f"{self.subject:65s} {self.steps:6d} steps, at most {self.longest:4d} in an episode, {ends}; "
            f"largest difference {self.largest[what]:.3g}{f' ({what})' if self.largest[what] else ''}"
        )


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


def play_theirs(env, actions):
    """An episode up to its end or the last action: what each step brought, and how it ended."""
    rows = {"observation": [], "reward": [], "end": []}
    end = "cut"
    for action in actions:
        shown, paid, ended, truncated, info = env.step(action)
        for name, value in {"observation": shown, "reward": paid, "end": ended}.items():
            rows[name].append(value)
        for name, value in info.items():
            rows.setdefault(f"info {name}", []).append(value)
        if ended or truncated:
            end = "terminated" if ended else "truncated"
            break
    return rows, end


def play(report, ours, env, steps, random, of):
    shape = (steps, ours.actions)
    actions = random.uniform(env.action_space.low, env.action_space.high, shape).astype(numpy.float32)
    ours.begin_play(actions)
    theirs, end = play_theirs(env, actions)
    mine = ours.played()
    for name in mine.keys() & theirs.keys():
        report.close_to(name, mine[name], theirs[name], 0.0 if name == "end" else TOLERANCE, of)
    report.ends[end] += 1
    report.steps += len(theirs["end"])
    report.longest = max(report.longest, len(theirs["end"]))


def can_draw():
    """Whether there is OpenGL without a screen, for gymnasium as for us."""
    try:
        from gymnasium.envs.mujoco.mujoco_rendering import _ALL_RENDERERS

        _ALL_RENDERERS[os.environ["MUJOCO_GL"]](64, 64).free()
    except Exception as error:  # of whatever is missing
        print(f"pictures are not compared: {error}")
        return False
    return True


def compare_pictures(program, name):
    ours = Ours(program, name, {})
    env = gymnasium.make(name, disable_env_checker=True, render_mode="rgb_array")
    report = Report(f"{name}, pictures")
    has_camera = mujoco.mj_name2id(env.unwrapped.model, mujoco.mjtObj.mjOBJ_CAMERA, "track") >= 0
    if has_camera:
        env = gymnasium.make(name, disable_env_checker=True, render_mode="rgb_array", camera_name="track")
    # Gymnasium's other camera looks for ever at the middle of what it sees first: the model's own state here.
    env.reset(seed=7)
    env.unwrapped.set_state(env.unwrapped.model.qpos0, env.unwrapped.init_qvel)
    env.render()
    ours.reset(7), env.reset(seed=7)
    report.close_to("picture", ours.picture(), env.render(), 0.0, "after a reset")
    actions = numpy.full((20, ours.actions), 0.3, numpy.float32)
    ours.begin_play(actions)
    play_theirs(env, actions)
    ours.played()
    report.close_to("picture", ours.picture(), env.render(), 0.0, "after an episode's begin")
    ours.close()
    env.close()
    return report


class Part:
    """Some episodes of a task with one set of options."""

    def __init__(self, name, options, seed, episodes, steps, resets=0):
        self.name, self.options, self.seed, self.resets = name, options, seed, resets
        self.episodes, self.steps = episodes, steps  # as many steps, or up to their ends where it is None
        self.subject = f"{name} {' '.join(option_texts(options))}".rstrip()

    def compare(self, program):
        ours = Ours(program, self.name, self.options)
        env = gymnasium.make(self.name, disable_env_checker=True, **self.options)
        report = Report(self.subject)
        compare_spec(report, ours, env)
        for seed in SEEDS[: self.resets]:
            report.close_to("reset", ours.reset(seed), env.reset(seed=seed)[0], 0.0, f"with seed {seed}")
        random = numpy.random.default_rng((5, self.seed))
        for episode in range(self.episodes):
            of = f"of episode {episode} from seed {self.seed}"
            seed = self.seed if episode == 0 else None
            report.close_to("reset", ours.reset(seed), env.reset(seed=seed)[0], 0.0, of)
            steps = ours.limit if self.steps is None else 1 + int(random.integers(self.steps))
            play(report, ours, env, steps, random, of)
        ours.close()
        env.close()
        return report


def parts_of(arguments):
    """The parts with long episodes come first, so that all processes end together."""
    part = 10
    for name in sorted(TASKS, key=lambda name: name != "HumanoidStandup-v5"):
        if arguments.only not in (None, name):
            continue
        assert len(TASKS[name]) >= 6, name
        for begin in range(0, arguments.episodes, part):
            episodes = min(part, arguments.episodes - begin)
            yield Part(name, {}, 7 + begin, episodes, arguments.steps, 0 if begin else len(SEEDS))
    draws = can_draw()
    for name, variants in TASKS.items():
        if arguments.only in (None, name):
            yield from (Part(name, options, 7, 3, 40, 2) for options in variants)
            yield from [name] if draws else []


def compare(work):
    part, program = work
    return compare_pictures(program, part) if isinstance(part, str) else part.compare(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built mujoco_trace")
    parser.add_argument("--episodes", type=int, default=100, help="episodes with default options (default 100)")
    parser.add_argument("--steps", type=int, help="longest of them (default: all go to their ends)")
    parser.add_argument("--only", help="one task")
    arguments = parser.parse_args()
    print(f"gymnasium {gymnasium.__version__}, mujoco {mujoco.mj_versionString()}, numpy {numpy.__version__}")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    program = os.path.abspath(arguments.program)
    os.chdir(tempfile.gettempdir())  # where the Python package may write its MUJOCO_LOG.TXT
    reports = {}
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for report in pool.imap(compare, [(part, program) for part in parts_of(arguments)]):
            reports.setdefault(report.subject, Report(report.subject)).add(report)
    faults = []
    for report in reports.values():
        print(report.line())
        faults += report.faults
    for fault in faults:
        print("FAULT", fault)
    print("mujoco parity:", "FAILED" if faults else "ok")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
