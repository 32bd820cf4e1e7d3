"""Trains CartPole with PufferLib's own trainer on its own environment in C; training_line.py has the command line.

The networks are those of the settings and the optimizer is Adam; PufferLib's own default network, Muon and LSTM are
left out. What stays its own: minibatches are segments of 128 steps drawn by the size of their advantages, which are
computed again for each, and episodes end after 200 steps.
"""

import contextlib
import os
import sys
import tempfile
import types

from training_line import Account, arguments

options = arguments()
sys.argv = sys.argv[:1]  # PufferLib reads the command line too
# Importing the trainer imports the search of hyper-parameters, and with it Pyro.
sys.modules["pufferlib.sweep"] = types.ModuleType("pufferlib.sweep")
with contextlib.redirect_stdout(sys.stderr):
    import pufferlib.pytorch
    import pufferlib.vector
    import torch
    from pufferlib import pufferl
    from pufferlib.ocean.cartpole.cartpole import Cartpole


def network(inputs, hidden, outputs, last_gain):
    layers = []
    for units in hidden:
        layers += [pufferlib.pytorch.layer_init(torch.nn.Linear(inputs, units)), torch.nn.Tanh()]
        inputs = units
    return torch.nn.Sequential(*layers, pufferlib.pytorch.layer_init(torch.nn.Linear(inputs, outputs), std=last_gain))


class Policy(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.hidden_size = hidden[-1]
        self.actor, self.critic = network(4, hidden, 2, 0.01), network(4, hidden, 1, 1.0)

    def forward_eval(self, observation, state=None):
        return self.actor(observation), self.critic(observation)

    def forward(self, observation, state=None):
        return self.forward_eval(observation, state)


def make_trainer(its, seed, folder):
    env = pufferlib.vector.make(
        Cartpole,
        backend=pufferlib.vector.Serial,
        num_envs=1,
        env_kwargs={"num_envs": its.num_envs, "report_interval": 64},
    )
    config = pufferl.load_config("puffer_cartpole")["train"]
    config.update(
        device="cpu",
        use_rnn=False,
        env="puffer_cartpole",
        seed=seed,
        data_dir=folder,
        checkpoint_interval=10**9,
        total_timesteps=its.total_steps,
        optimizer="adam",
        learning_rate=its.learning_rate,
        adam_beta1=0.9,
        adam_eps=1e-5,
        gamma=its.gamma,
        gae_lambda=its.gae_lambda,
        clip_coef=its.clip_range,
        vf_clip_coef=its.clip_range,
        vf_coef=2 * its.value_coef,  # of half the squared error
        ent_coef=its.entropy_coef,
        max_grad_norm=its.max_grad_norm,
        bptt_horizon=its.rollout_steps,
        batch_size="auto",
        minibatch_size=its.minibatch_size,
        update_epochs=its.epochs,
    )
    trainer = pufferl.PuffeRL(config, env, Policy(its.hidden))
    trainer.print_dashboard = lambda *_, **__: None
    return trainer


def main():
    its, account, lengths = options.settings, Account(options), []
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        trainer = make_trainer(its, options.seed, folder)
        account.training_starts()
        while trainer.global_step < options.steps:
            trainer.evaluate()
            logs = trainer.train() or {}
            account.update_ends()
            lengths += [float(value) for key, value in logs.items() if "episode_length" in key]
        steps, threads = trainer.global_step, torch.get_num_threads()
    # Each step earns 1, so the length of an episode is its return. It tells of them about once a second.
    print(account.line(steps, ("pufferlib", "torch"), threads, mean_return=lengths[-1] if lengths else 1.0), flush=True)
    os._exit(0)  # its threads do not end by themselves


if __name__ == "__main__":
    main()
