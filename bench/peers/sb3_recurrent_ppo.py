"""Trains with the RecurrentPPO of sb3-contrib on CartPole-v1 without its velocities; training_line.py has the command
line.

Its actor and critic have an LSTM each, as Tandem's. Its hidden layers lie behind the LSTMs and Tandem's before them: of
the same size, and the same work. A minibatch has whole sequences there, too; they end with their episode.
"""

import gymnasium
import torch
from sb3_contrib import RecurrentPPO
from sb3_on_policy import ppo_arguments, train
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv
from training_line import arguments

POSITIONS = [0, 2]  # of the cart and of the pole's angle


class Positions(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        box = env.observation_space
        self.observation_space = gymnasium.spaces.Box(box.low[POSITIONS], box.high[POSITIONS], dtype=box.dtype)

    def observation(self, observation):
        return observation[POSITIONS]


def main():
    options = arguments()
    its = options.settings
    env = make_vec_env(
        "CartPole-v1", n_envs=its.num_envs, seed=options.seed, vec_env_cls=DummyVecEnv, wrapper_class=Positions
    )
    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        **ppo_arguments(options),
        policy_kwargs={
            "net_arch": {"pi": its.hidden, "vf": its.hidden},
            "activation_fn": torch.nn.Tanh,
            "lstm_hidden_size": its.recurrent_size,
            "enable_critic_lstm": True,
        },
    )
    train(model, options, ("sb3-contrib", "stable-baselines3", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
