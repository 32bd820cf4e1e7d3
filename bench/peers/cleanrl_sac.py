"""SAC in one file on plain PyTorch and gymnasium, as CleanRL's sac_continuous_action.py does it; training_line.py has
the command line. It is our own script, not CleanRL's: the package on the index asks for a torch and a gym of its time.

What it has in common with CleanRL's: two critics side by side, tanh of a normal whose deviation comes from the network
(log_std from -5 to 2), a learned temperature, targets that follow after each optimizer step, a replay of NumPy arrays.
The actor learns once for each step of the critics.
"""

import gymnasium
import numpy
import torch
from torch import nn
from torch.nn import functional
from training_line import Account, arguments

LEAST_LOG_STD, MOST_LOG_STD = -5, 2


def network(inputs, hidden, outputs):
    layers = []
    for units in hidden:
        layers += [nn.Linear(inputs, units), nn.ReLU()]
        inputs = units
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class Actor(nn.Module):
    def __init__(self, space, inputs, hidden):
        super().__init__()
        self.size = space.shape[0]
        self.net = network(inputs, hidden, 2 * self.size)
        self.register_buffer("scale", torch.tensor((space.high - space.low) / 2))
        self.register_buffer("middle", torch.tensor((space.high + space.low) / 2))

    def forward(self, observation):
        """Actions and their log-probabilities."""
        mean, log_std = self.net(observation).split(self.size, dim=-1)
        log_std = LEAST_LOG_STD + 0.5 * (MOST_LOG_STD - LEAST_LOG_STD) * (torch.tanh(log_std) + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        draw = normal.rsample()
        squashed = torch.tanh(draw)
        log_prob = normal.log_prob(draw) - torch.log(self.scale * (1 - squashed**2) + 1e-6)
        return squashed * self.scale + self.middle, log_prob.sum(-1)


class Replay:
    def __init__(self, size, inputs, actions):
        self._size, self._rows, self._next = size, 0, 0
        self._arrays = [
            numpy.zeros((size, *shape), numpy.float32) for shape in ((inputs,), (inputs,), (actions,), (), ())
        ]

    def add(self, *columns):
        for row in zip(*columns):
            for array, value in zip(self._arrays, row):
                array[self._next] = value
            self._next = (self._next + 1) % self._size
            self._rows = min(self._rows + 1, self._size)

    def draw(self, count):
        rows = numpy.random.randint(0, self._rows, count)
        return [torch.as_tensor(array[rows]) for array in self._arrays]


class Training:
    def __init__(self, its, env):
        self._its, space = its, env.single_action_space
        inputs, actions = env.single_observation_space.shape[0], space.shape[0]
        self.actor = Actor(space, inputs, its.hidden)
        self._critics = nn.ModuleList(network(inputs + actions, its.hidden, 1) for _ in range(2))
        self._targets = nn.ModuleList(network(inputs + actions, its.hidden, 1) for _ in range(2))
        self._targets.load_state_dict(self._critics.state_dict())
        self._log_temperature = torch.zeros((), requires_grad=True)
        self._target_entropy = -float(actions)
        self._optimizers = {
            "critics": torch.optim.Adam(self._critics.parameters(), its.learning_rate),
            "actor": torch.optim.Adam(self.actor.parameters(), its.learning_rate),
            "temperature": torch.optim.Adam([self._log_temperature], its.learning_rate),
        }

    def _step(self, name, loss):
        self._optimizers[name].zero_grad()
        loss.backward()
        self._optimizers[name].step()

    @staticmethod
    def _values(critics, observation, action):
        pair = torch.cat([observation, action], -1)
        return [critic(pair).squeeze(-1) for critic in critics]

    def learn(self, replay):
        observation, later, action, reward, ends = replay.draw(self._its.batch_size)
        temperature = self._log_temperature.exp().item()
        with torch.no_grad():
            next_action, next_log_prob = self.actor(later)
            least = torch.min(*self._values(self._targets, later, next_action))
            target = reward + (1 - ends) * self._its.gamma * (least - temperature * next_log_prob)
        values = self._values(self._critics, observation, action)
        self._step("critics", sum(functional.mse_loss(value, target) for value in values))
        drawn, log_prob = self.actor(observation)
        least = torch.min(*self._values(self._critics, observation, drawn))
        self._step("actor", (temperature * log_prob - least).mean())
        surplus = log_prob.detach() + self._target_entropy
        self._step("temperature", (-self._log_temperature.exp() * surplus).mean())
        with torch.no_grad():
            for parameter, its in zip(self._targets.parameters(), self._critics.parameters()):
                parameter.lerp_(its, self._its.tau)


def main():
    options = arguments()
    its = options.settings
    torch.manual_seed(options.seed)
    numpy.random.seed(options.seed)
    env = gymnasium.make_vec(
        its.env,
        num_envs=its.num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP},
    )
    training, account = Training(its, env), Account(options)
    replay = Replay(its.replay_size, env.single_observation_space.shape[0], env.single_action_space.shape[0])
    env.action_space.seed(options.seed)
    observation, _ = env.reset(seed=options.seed)
    account.training_starts()
    returns, steps = numpy.zeros(its.num_envs), 0
    while steps < options.steps and account.wants_more():
        for _ in range(its.train_every):
            if steps < its.learning_starts:
                action = env.action_space.sample()
            else:
                with torch.no_grad():
                    action = training.actor(torch.as_tensor(observation, dtype=torch.float32))[0].numpy()
            later, reward, terminated, truncated, infos = env.step(action)
            last, over = later.copy(), terminated | truncated
            for row in numpy.flatnonzero(over):
                last[row] = infos["final_obs"][row]
            replay.add(observation, last, action, reward, terminated)
            observation, returns, steps = later, returns + reward, steps + its.num_envs
            for row in numpy.flatnonzero(over):
                account.episode_ends(returns[row])
                returns[row] = 0
        if steps >= its.learning_starts:
            for _ in range(its.gradient_steps):
                training.learn(replay)
            account.update_ends()
    print(account.line(steps, ("torch", "gymnasium"), torch.get_num_threads()))


if __name__ == "__main__":
    main()
