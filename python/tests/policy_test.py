"""tandem.load(), predict() and evaluate(): the numbers of `tandem eval`."""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import tandem


def evaluated_by_the_program(run, *more):
    program = [sys.executable, "-m", "tandem", "eval", str(run.folder), "--episodes", "8", "--json", *more]
    return json.loads(subprocess.run(program, check=True, capture_output=True, text=True, timeout=120).stdout)


def test_evaluate_gives_the_numbers_of_the_program(small):
    run = tandem.train(**small)
    its = tandem.evaluate(tandem.load(run), episodes=8)
    theirs = evaluated_by_the_program(run)
    assert its.returns.tolist() == theirs["returns"] and its.lengths.tolist() == theirs["lengths"]


@pytest.mark.parametrize("policy", [{"hidden": [8]}, {"hidden": [8], "recurrent": "lstm", "recurrent_size": 4}])
def test_predict_plays_the_episodes_of_eval(small, policy):
    """The same starts, played by hand with a normaliser: every return and length is that of `tandem eval`."""
    small.update(policy=policy, normalize={"observations": True, "rewards": True}, env="Pendulum-v1")
    run = tandem.train(**small)
    policy = tandem.load(run)
    theirs = policy.evaluate(8)
    envs = tandem.make_vec("Pendulum-v1", 8)
    observation, _ = envs.reset(seed=starts_of_eval(8))
    state, returns = None, np.zeros(8)
    for _ in range(200):
        action, state = policy.predict(observation, state)
        observation, reward, _, ended, _ = envs.step(action)
        returns += reward
    assert ended.all()
    assert returns.tolist() == theirs.returns.tolist()


def starts_of_eval(episodes):
    return [tandem._load.core().evaluation_seed(0, episode) for episode in range(episodes)]


def test_one_observation_gives_one_action(small):
    policy = tandem.load(tandem.train(**small))
    action, state = policy.predict(np.zeros(4, np.float32))
    assert action in (0, 1) and state is None
    many, _ = policy.predict(np.zeros((3, 4)))
    assert many.shape == (3,) and many.dtype == np.int64 and (many == action).all()


def test_drawn_actions_differ(small):
    policy = tandem.load(tandem.train(**small))
    drawn, _ = policy.predict(np.zeros((64, 4), np.float32), deterministic=False)
    assert set(drawn.tolist()) == {0, 1}


@pytest.fixture
def continuous(small):
    return {**small, "env": "Pendulum-v1", "policy": {"hidden": [8], "head": "normal"}}


def drawn(policy, counts):
    """What is drawn for so many rows, one number of rows after the other; what is cut at a bound is left out."""
    actions = [policy.predict(np.zeros((rows, 3)), deterministic=False)[0] for rows in counts]
    return [action for action in np.concatenate(actions).ravel().tolist() if abs(action) < 2]


def test_draws_do_not_repeat_whatever_the_numbers_of_rows(continuous):
    policy = tandem.load(tandem.train(**continuous))
    actions = drawn(policy, [*range(1, 10)] * 2)
    assert len(actions) > 45 and len(set(actions)) == len(actions)


def test_draws_follow_from_the_seed_of_a_load(continuous):
    run = tandem.train(**continuous)
    first, again, other = (drawn(tandem.load(run, seed=seed), (4, 2, 4)) for seed in (5, 5, 6))
    assert first == again and not set(first) & set(other)
    assert drawn(tandem.load(run), (4, 2, 4)) == drawn(tandem.load(run, seed=0), (4, 2, 4))


def test_an_observation_of_another_shape_is_refused(small):
    policy = tandem.load(tandem.train(**small))
    with pytest.raises(ValueError, match=r"'obs' has shape \[5\]; it is \[4\]"):
        policy.predict(np.zeros(5))


def test_an_environment_of_gymnasium_is_played_step_by_step(small):
    policy = tandem.load(tandem.train(**small))
    with gymnasium.make("CartPole-v1") as env:
        its = tandem.evaluate(policy, env, episodes=2)
    assert (its.returns == its.lengths).all() and its.lengths.min() > 0


class Told(gymnasium.Env):
    """Writes down the actions that it is given, which must be of its space."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, action_space, given=None):
        self.action_space, self.given = action_space, [] if given is None else given

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(2, 0.5, np.float32), {}

    def step(self, action):
        assert action in self.action_space, f"{action!r} is not in {self.action_space}"
        self.given.append(action)
        return np.full(2, 0.5, np.float32), 0.0, len(self.given) % 8 == 0, False, {}


SPACES = [
    gymnasium.spaces.Discrete(3, start=-1),
    gymnasium.spaces.MultiDiscrete([2, 3], start=[5, -2]),
    gymnasium.spaces.MultiBinary((2, 2)),
    gymnasium.spaces.Box(-2, 1, (3,), np.int32),
    gymnasium.spaces.Box(-1, 1, (2, 3), np.float64),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_an_environment_is_given_actions_of_its_space(small, space):
    small.update(env=lambda: Told(space), total_steps=128)
    policy, env = tandem.load(tandem.train(**small)), Told(space)
    tandem.evaluate(policy, env, episodes=2, deterministic=False)
    assert len(env.given) == 16


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_become_what_workers_make_of_them(space):
    text = Path(__file__).resolve().parents[2] / "tandem" / "rl" / "env" / "python" / "worker" / "spaces.py"
    worker = {"gymnasium": gymnasium, "np": np, "MOST_BOUNDS": 4096}
    exec(text.read_text(), worker)
    its = worker["Actions"](space)
    if its.type == "box":
        rows = np.linspace(-1, 1, 5 * its.elements(), dtype=np.float32).reshape(5, -1)
    else:
        rows = np.arange(5)[:, None] % np.array(its.sizes)
    chosen = rows[:, 0].tolist() if its.type == "discrete" else rows
    for ours, theirs in zip((tandem._spaces.action_of(space, one) for one in chosen), its.of(rows)):
        assert type(ours) is type(theirs) and ours.dtype == theirs.dtype and ours in space
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("space", [gymnasium.spaces.MultiDiscrete([2, 2]), gymnasium.spaces.Box(-1, 1, (1,))], ids=str)
def test_an_environment_of_other_actions_is_refused(small, space):
    policy = tandem.load(tandem.train(**{**small, "env": lambda: Told(gymnasium.spaces.Discrete(2))}))
    with pytest.raises(ValueError, match=r"the policy's actions are 1 of type int64, and .* action space is "):
        tandem.evaluate(policy, Told(space), episodes=1)


class Picture(Told):
    observation_space = gymnasium.spaces.Box(0, 255, (2,), np.uint8)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.uint8), super().reset(seed=seed)[1]

    def step(self, action):
        return np.zeros(2, np.uint8), *super().step(action)[1:]


def test_numbers_that_a_leaf_does_not_hold_are_refused(small):
    small.update(env=lambda: Picture(gymnasium.spaces.Discrete(2)), total_steps=128)
    policy = tandem.load(tandem.train(**small))
    assert policy.predict([0, 255])[0] in (0, 1)
    for wrong in (300, -1):
        with pytest.raises(ValueError, match=f"'obs' holds {wrong}, and uint8 goes from 0 to 255"):
            policy.predict([7, wrong])


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(tandem.ConfigError, match=str(tmp_path)):
        tandem.load(tmp_path)
