"""What the tests of the package share."""

import pytest


@pytest.fixture
def small(tmp_path):
    """Keywords of a training of a second: CartPole, eight updates."""
    return {
        "env": "CartPole-v1",
        "run_dir": tmp_path / "run",
        "total_steps": 1024,
        "num_envs": 4,
        "rollout_steps": 32,
        "policy": {"hidden": [8]},
        "ppo": {"minibatches": 2, "epochs": 1},
        "seed": 3,
        "quiet": True,
    }
