"""Trains with SAC or TD3 of rl-tools, compiled for the settings on the first call; training_line.py has the command
line.

The whole training is in C++, the environment gymnasium's, the products of matrices MKL's. rl-tools has one environment
at a time here, and its number of layers counts that of the outputs.
"""

import os

os.environ["MKL_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]  # before rl-tools takes one of its own choice

import gymnasium
import rltools
from gymnasium.wrappers import RescaleAction
from training_line import Account, arguments


class Watched(gymnasium.Wrapper):
    """Tells the account of episodes."""

    def __init__(self, env, account):
        super().__init__(env)
        self._account, self._return = account, 0.0

    def step(self, action):
        result = self.env.step(action)
        self._return += float(result[1])
        if result[2] or result[3]:
            self._account.episode_ends(self._return)
            self._return = 0.0
        return result


def main():
    options = arguments()
    its = options.settings
    account = Account(options)
    assert len(set(its.hidden)) == 1, "rl-tools has layers of one width"
    made = getattr(rltools, its.algo.upper())(
        lambda: Watched(RescaleAction(gymnasium.make(its.env), -1.0, 1.0), account),
        enable_evaluation=False,
        interface_name=f"{its.algo}_{its.env.replace('-', '_')}_{its.hidden[0]}_{options.steps}",
        GAMMA=its.gamma,
        ACTOR_BATCH_SIZE=its.batch_size,
        CRITIC_BATCH_SIZE=its.batch_size,
        N_WARMUP_STEPS=its.learning_starts,
        STEP_LIMIT=options.steps,
        REPLAY_BUFFER_CAP=its.replay_size,
        ACTOR_HIDDEN_DIM=its.hidden[0],
        CRITIC_HIDDEN_DIM=its.hidden[0],
        ACTOR_NUM_LAYERS=len(its.hidden) + 1,
        CRITIC_NUM_LAYERS=len(its.hidden) + 1,
        ACTOR_POLYAK=1 - its.tau,
        CRITIC_POLYAK=1 - its.tau,
        OPTIMIZER_ALPHA=its.learning_rate,
    )
    state = made.State(options.seed)
    account.training_starts()
    while not state.step():
        pass
    account.update_ends()
    print("\n" + account.line(options.steps, ("rltools", "gymnasium"), int(os.environ["OMP_NUM_THREADS"])))


if __name__ == "__main__":
    main()
