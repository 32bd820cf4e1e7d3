"""What a training with the interface of stable-baselines3 tells an Account (training_line.py)."""

from stable_baselines3.common.callbacks import BaseCallback


class Watch(BaseCallback):
    """The first update has ended when a rollout begins after more steps than `learning_starts`: with 0 the second."""

    def __init__(self, account, learning_starts=0):
        super().__init__()
        self._account = account
        self._learning_starts = learning_starts

    def _on_training_start(self):
        self._account.training_starts()

    def _on_rollout_start(self):
        if self.num_timesteps > self._learning_starts:
            self._account.update_ends()

    def _on_step(self):
        for info in self.locals["infos"]:
            if "episode" in info:
                self._account.episode_ends(info["episode"]["r"])
        return self._account.wants_more()
