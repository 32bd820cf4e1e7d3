"""Trains with Sample Factory's APPO, two rollout workers and asynchronous; training_line.py has the command line.

Pictures go through its convnet_atari, which is the network of the Nature paper.

Sample Factory samples while it learns. Of a few settings of workers and modes this was its fastest here. Steps are
counted from its first training step on.
"""

import contextlib
import os
import sys
import tempfile

from training_line import Account, arguments
from visual_catch import register

options = arguments()
with contextlib.redirect_stdout(sys.stderr):
    import gymnasium
    import torch
    from sample_factory.algo.runners.runner import AlgoObserver
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import make_runner

WORKERS, SPLITS = 2, 2


class Watch(AlgoObserver):
    def __init__(self, account):
        self._account = account
        self._begun = False
        self.line = None

    def on_training_step(self, runner, training_iteration_since_resume):
        steps = sum(runner.env_steps.values())
        if not self._begun and steps > 0:
            self._begun = True
            self._account.update_ends()
            self._account.training_starts(steps)

    def on_stop(self, runner):
        returns = runner.policy_avg_stats.get("reward", [[]])[0]
        mean = sum(map(float, returns)) / len(returns) if returns else 1.0
        steps = sum(runner.env_steps.values())
        self.line = self._account.line(
            steps, ("sample-factory", "torch", "gymnasium"), torch.get_num_threads(), mean_return=mean
        )


def make_env(name, config, env_config, render_mode=None):  # by name, as other processes look it up
    if options.settings.env not in gymnasium.registry:
        register()
    return gymnasium.make(options.settings.env)


def network_words(its):
    hidden = [str(units) for units in its.hidden]
    if its.torso == "nature_cnn":
        own = ["--encoder_conv_architecture=convnet_atari", "--obs_scale=255.0", "--nonlinearity=relu"]
        return [*own, "--actor_critic_share_weights=True", "--encoder_conv_mlp_layers", *hidden]
    return ["--nonlinearity=tanh", "--actor_critic_share_weights=False", "--encoder_mlp_layers", *hidden]


def words(its, folder):
    settings = {
        "algo": "APPO",
        "env": its.env,
        "experiment": "bench",
        "train_dir": folder,
        "seed": options.seed,
        "device": "cpu",
        "serial_mode": False,
        "async_rl": True,
        "num_workers": WORKERS,
        "num_envs_per_worker": its.num_envs // WORKERS,
        "worker_num_splits": SPLITS,
        "rollout": its.rollout_steps,
        "recurrence": 1,
        "use_rnn": False,
        "batch_size": its.minibatch_size,
        "num_batches_per_epoch": its.num_envs * its.rollout_steps // its.minibatch_size,
        "num_epochs": its.epochs,
        "normalize_input": False,
        "normalize_returns": True,  # its default; without, it warns of high losses
        "learning_rate": its.learning_rate,
        "gamma": its.gamma,
        "gae_lambda": its.gae_lambda,
        "ppo_clip_ratio": its.clip_range,
        "exploration_loss_coeff": its.entropy_coef,
        "value_loss_coeff": 2 * its.value_coef,
        "max_grad_norm": its.max_grad_norm,
        "with_vtrace": False,
        "save_every_sec": 1000,
        "experiment_summaries_interval": 10,
        "train_for_env_steps": options.steps,
    }
    return [f"--{key}={value}" for key, value in settings.items()] + network_words(its)


def main():
    its, watch = options.settings, Watch(Account(options))
    register_env(its.env, make_env)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        parser, _ = parse_sf_args(argv=words(its, folder))
        _, runner = make_runner(parse_full_cfg(parser, words(its, folder)))
        runner.register_observer(watch)
        if runner.init() == 0:
            runner.run()
    if watch.line is None:
        sys.exit("Sample Factory ended without a training step")
    print(watch.line, flush=True)
    os._exit(0)  # what its processes share may not be given back in time


if __name__ == "__main__":
    main()
