"""Trains with the RecurrentPPO of sb3-contrib on CartPole-v1 without its velocities; training_line.py has the command
line.

Its actor and critic have an LSTM each, as Tandem's. Its hidden layers lie behind the LSTMs and Tandem's before them: of
the same size, and the same work. A minibatch has whole sequences there, too; they end with their episode.
"""

import gymnasium
import torch
from sb3_contrib import RecurrentPPO
from sb3_watch import Watch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv
from training_line import Account, arguments

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
    share = options.steps / its.total_steps
    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        seed=options.seed,
        device="cpu",
        learning_rate=lambda left: its.learning_rate * max(0.0, 1 - (1 - left) * share),
        n_steps=its.rollout_steps,
        batch_size=its.minibatch_size,
        n_epochs=its.epochs,
        gamma=its.gamma,
        gae_lambda=its.gae_lambda,
        clip_range=its.clip_range,
        ent_coef=its.entropy_coef,
        vf_coef=its.value_coef,
        max_grad_norm=its.max_grad_norm,
        policy_kwargs={
            "net_arch": {"pi": its.hidden, "vf": its.hidden},
            "activation_fn": torch.nn.Tanh,
            "lstm_hidden_size": its.recurrent_size,
            "enable_critic_lstm": True,
        },
    )
    account = Account(options)
    model.learn(options.steps, callback=Watch(account))
    account.update_ends()
    packages = ("sb3-contrib", "stable-baselines3", "torch", "gymnasium")
    print(account.line(model.num_timesteps, packages, torch.get_num_threads()))


if __name__ == "__main__":
    main()
