"""tandem.load(), predict() and evaluate(): the numbers of `tandem eval`."""

import json
import subprocess
import sys

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


def test_an_observation_of_another_shape_is_refused(small):
    policy = tandem.load(tandem.train(**small))
    with pytest.raises(ValueError, match=r"'obs' has shape \[5\]; it is \[4\]"):
        policy.predict(np.zeros(5))


def test_an_environment_of_gymnasium_is_played_step_by_step(small):
    import gymnasium

    policy = tandem.load(tandem.train(**small))
    with gymnasium.make("CartPole-v1") as env:
        its = tandem.evaluate(policy, env, episodes=2)
    assert (its.returns == its.lengths).all() and its.lengths.min() > 0


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(tandem.ConfigError, match=str(tmp_path)):
        tandem.load(tmp_path)
