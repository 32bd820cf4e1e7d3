"""tandem.make_vec() beside gymnasium's own vector environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import tandem


def both(name, count):
    theirs = SyncVectorEnv([lambda: gymnasium.make(name)] * count, autoreset_mode=AutoresetMode.SAME_STEP)
    return tandem.make_vec(name, count), theirs


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"])
def test_steps_and_spaces_are_those_of_gymnasium(name):
    ours, theirs = both(name, 5)
    assert isinstance(ours, VectorEnv) and ours.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    for space in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
        assert getattr(ours, space) == getattr(theirs, space), space
    ours.action_space.seed(1)
    shown, expected = ours.reset(seed=7)[0], theirs.reset(seed=7)[0]
    np.testing.assert_array_equal(shown, expected)
    for _ in range(520):
        actions = ours.action_space.sample()
        its, others = ours.step(actions), theirs.step(actions)
        np.testing.assert_allclose(its[0], others[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(its[2], others[2])
        np.testing.assert_array_equal(its[3], others[3])
        assert its[0] in ours.observation_space and its[0].dtype == others[0].dtype
        if "final_obs" in others[4]:
            np.testing.assert_array_equal(its[4]["_final_obs"], others[4]["_final_obs"])
            for row in np.flatnonzero(others[4]["_final_obs"]):
                np.testing.assert_allclose(its[4]["final_obs"][row], others[4]["final_obs"][row], rtol=1e-6, atol=1e-6)
        else:
            assert "final_obs" not in its[4]
    ours.close()
    theirs.close()


def test_without_copies_observations_are_the_memory_that_the_next_step_writes():
    envs = tandem.make_vec("CartPole-v1", 3, copy=False)
    first, _ = envs.reset(seed=1)
    before = first.copy()
    second = envs.step(np.zeros(3, np.int64))[0]
    assert second is first and (second != before).any()
    copied = tandem.make_vec("CartPole-v1", 3)
    kept, _ = copied.reset(seed=1)
    copied.step(np.zeros(3, np.int64))
    np.testing.assert_array_equal(kept, before)


def test_gymnasiums_wrappers_go_around_it():
    envs = RecordEpisodeStatistics(tandem.make_vec("CartPole-v1", 8))
    envs.reset(seed=1)
    lengths = []
    for _ in range(200):
        infos = envs.step(np.ones(8, np.int64))[4]
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert lengths and max(lengths) < 15  # a pole that is always pushed to one side


def test_actions_that_do_not_fit_are_refused():
    envs = tandem.make_vec("CartPole-v1", 2)
    with pytest.raises(RuntimeError, match="reset"):
        envs.step([0, 0])
    envs.reset()
    with pytest.raises(ValueError, match=r"shape \[3\]; it must be \[2\]"):
        envs.step([0, 0, 0])
    with pytest.raises(TypeError, match="float64"):
        envs.step([0.5, 0.5])
    with pytest.raises(tandem.EnvError):
        envs.step([0, 7])


def test_wrappers_and_options_are_the_cores():
    envs = tandem.make_vec("Pendulum-v1", 2, env_wrappers={"frame_stack": 3})
    assert envs.single_observation_space.shape[0] == 3 or envs.single_observation_space.shape == (9,)


def test_an_unknown_name_is_said_with_the_nearest_one():
    with pytest.raises(tandem.ConfigError, match="CartPole-v1"):
        tandem.make_vec("CartPol-v1", 2)
