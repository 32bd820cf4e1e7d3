"""PPO in one file on plain PyTorch and gymnasium, with the settings of CleanRL's ppo.py, and of its ppo_atari.py for
pictures; training_line.py has the command line. It is our own script, not CleanRL's: the package on the index (1.2.0,
2023) asks for a torch and a gym of that time.

What it has in common with CleanRL's: SyncVectorEnv with restarts within the step, separate networks with orthogonal
first weights, advantages normalised over the minibatch, both losses clipped, Adam with eps 1e-5, a linear learning
rate. For pictures: one network with two heads, and rollouts of floats.
"""

import gymnasium
import numpy
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions.categorical import Categorical
from training_line import Account, arguments
from visual_catch import register


def with_first_weights(made, gain=2**0.5):
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


def layer(inputs, outputs, gain=2**0.5):
    return with_first_weights(nn.Linear(inputs, outputs), gain)


def network(inputs, hidden, outputs, last_gain):
    layers, width = [], inputs
    for units in hidden:
        layers += [layer(width, units), nn.Tanh()]
        width = units
    return nn.Sequential(*layers, layer(width, outputs, last_gain))


class VectorPolicy(nn.Module):
    """Logits and value of rows of numbers."""

    def __init__(self, inputs, hidden, actions):
        super().__init__()
        self.actor, self.critic = network(inputs, hidden, actions, 0.01), network(inputs, hidden, 1, 1.0)

    def forward(self, observation):
        return self.actor(observation), self.critic(observation).flatten()


class PicturePolicy(nn.Module):
    """The same of pictures of 84x84, by the network of the Nature paper."""

    def __init__(self, pictures, units, actions):
        super().__init__()
        convolutions = [(pictures, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)]
        layers = []
        for inputs, outputs, kernel, stride in convolutions:
            layers += [with_first_weights(nn.Conv2d(inputs, outputs, kernel, stride)), nn.ReLU()]
        self.network = nn.Sequential(*layers, nn.Flatten(), layer(64 * 7 * 7, units), nn.ReLU())
        self.actor, self.critic = layer(units, actions, 0.01), layer(units, 1, 1.0)

    def forward(self, observation):
        hidden = self.network(observation / 255.0)
        return self.actor(hidden), self.critic(hidden).flatten()


def make_policy(its, space, actions):
    if its.torso == "nature_cnn":
        return PicturePolicy(space.shape[0], its.hidden[0], actions)
    return VectorPolicy(space.shape[0], its.hidden, actions)


class Rollout:
    """What one update learns from, [steps, envs, ...]."""

    def __init__(self, steps, envs, shape):
        self.observation = torch.zeros(steps, envs, *shape)
        self.action, self.log_prob, self.reward, self.value = (torch.zeros(steps, envs) for _ in range(4))
        self.begins = torch.zeros(steps + 1, envs)  # whether an episode begins with the observation

    def advantages(self, last_value, gamma, gae_lambda):
        result, carried, next_value = torch.zeros_like(self.reward), 0.0, last_value
        for t in reversed(range(len(self.reward))):
            goes_on = 1 - self.begins[t + 1]
            surprise = self.reward[t] + gamma * goes_on * next_value - self.value[t]
            result[t] = carried = surprise + gamma * gae_lambda * goes_on * carried
            next_value = self.value[t]
        return result


class Training:
    def __init__(self, options, account):
        its = self.settings = options.settings
        self.account = account
        torch.manual_seed(options.seed)
        numpy.random.seed(options.seed)
        self.env = gymnasium.make_vec(
            its.env,
            num_envs=its.num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        )
        space = self.env.single_observation_space
        self.policy = make_policy(its, space, self.env.single_action_space.n)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=its.learning_rate, eps=1e-5)
        self.rollout = Rollout(its.rollout_steps, its.num_envs, space.shape)
        self.observation = torch.Tensor(self.env.reset(seed=options.seed)[0])
        self.begins = torch.zeros(its.num_envs)
        self.returns = numpy.zeros(its.num_envs)

    @torch.no_grad()
    def sample(self):
        kept = self.rollout
        for t in range(self.settings.rollout_steps):
            kept.observation[t], kept.begins[t] = self.observation, self.begins
            logits, kept.value[t] = self.policy(self.observation)
            choice = Categorical(logits=logits)
            action = choice.sample()
            kept.action[t], kept.log_prob[t] = action, choice.log_prob(action)
            observation, reward, terminated, truncated, _ = self.env.step(action.numpy())
            kept.reward[t] = torch.from_numpy(reward)
            self.note(reward, terminated | truncated)
            self.observation = torch.Tensor(observation)
        kept.begins[-1] = self.begins
        its = self.settings
        return kept.advantages(self.policy(self.observation)[1], its.gamma, its.gae_lambda)

    def note(self, reward, ended):
        self.begins = torch.from_numpy(ended.astype(numpy.float32))
        self.returns += reward
        for env in numpy.flatnonzero(ended):
            self.account.episode_ends(self.returns[env])
            self.returns[env] = 0

    def learn(self, advantage):
        kept, its = self.rollout, self.settings
        rows = its.num_envs * its.rollout_steps
        columns = [
            column.reshape(rows, *column.shape[2:])
            for column in (kept.observation, kept.action, kept.log_prob, kept.value, advantage, advantage + kept.value)
        ]
        for _ in range(its.epochs):
            order = numpy.random.permutation(rows)
            for begin in range(0, rows, its.minibatch_size):
                self.step(*(column[order[begin : begin + its.minibatch_size]] for column in columns))

    def step(self, observation, action, log_prob, value, advantage, target):
        its = self.settings
        logits, new_value = self.policy(observation)
        choice = Categorical(logits=logits)
        ratio = (choice.log_prob(action) - log_prob).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped_ratio = ratio.clamp(1 - its.clip_range, 1 + its.clip_range)
        policy_loss = torch.max(-advantage * ratio, -advantage * clipped_ratio).mean()
        near_value = value + (new_value - value).clamp(-its.clip_range, its.clip_range)
        value_loss = torch.max((new_value - target) ** 2, (near_value - target) ** 2).mean()
        loss = policy_loss - its.entropy_coef * choice.entropy().mean() + its.value_coef * value_loss
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), its.max_grad_norm)
        self.optimizer.step()


def main():
    options = arguments()
    its = options.settings
    account = Account(options)
    register()
    training = Training(options, account)
    account.training_starts()
    made = 0
    while made < options.steps and account.wants_more():
        training.optimizer.param_groups[0]["lr"] = its.learning_rate * (1 - made / its.total_steps)
        training.learn(training.sample())
        made += its.num_envs * its.rollout_steps
        account.update_ends()
    print(account.line(made, ("torch", "gymnasium"), torch.get_num_threads()))


if __name__ == "__main__":
    main()
