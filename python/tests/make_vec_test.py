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


def resets_after(seed):
    """What three resets without a seed show after one with it, of environments that are made for it."""
    envs = tandem.make_vec("CartPole-v1", 3)
    envs.reset(seed=seed)
    return [envs.reset()[0] for _ in range(3)]


@pytest.mark.parametrize("seed", [7, np.int64(7), [3, 1, 2], np.array([3, 1, 2])], ids=repr)
def test_after_a_seed_the_resets_without_one_repeat(seed):
    first, again = resets_after(seed), resets_after(seed)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1])


def test_a_seed_is_that_of_np_random_as_in_gymnasium():
    envs = tandem.make_vec("CartPole-v1", 3)
    envs.reset(seed=7)
    assert envs.np_random_seed == 7
    other = [resets_after(seed)[0] for seed in (7, 8, [7, 8, 9], [8, 8, 9])]
    assert len({its.tobytes() for its in other}) == 4


def test_options_of_a_reset_are_refused():
    envs = tandem.make_vec("CartPole-v1", 2)
    with pytest.raises(ValueError, match=r"reset\(options=\{'low': -0.1\}\): .* take none; .* env_options"):
        envs.reset(options={"low": -0.1})
    with pytest.raises(ValueError, match="no reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(options={})


def test_closed_environments_say_so():
    envs = tandem.make_vec("CartPole-v1", 2)
    envs.reset(seed=1)
    envs.close()
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="closed"):
        envs.reset()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="closed"):
        envs.step([0, 0])


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


def test_a_text_is_a_number_to_an_environment_of_the_core_that_has_such_an_option():
    shapes = [
        tandem.make_vec("BitFlipping-v0", 1, env_options={"bits": bits}).single_observation_space["observation"].shape
        for bits in (6, "6")
    ]
    assert shapes == [(6,), (6,)]


def test_an_unknown_name_is_said_with_the_nearest_one():
    with pytest.raises(tandem.ConfigError, match="CartPole-v1"):
        tandem.make_vec("CartPol-v1", 2)
