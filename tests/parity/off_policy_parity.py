#!/usr/bin/env python3
"""Makes two turns of learning of SAC, TD3 and DQN in plain PyTorch and compares them with Tandem's.

usage: off_policy_parity.py PATH/TO/off_policy_updates

The program writes networks, rows, and what it made of them. Here the same turns are written down anew, by the papers,
with autograd and torch.optim.Adam. Exits with 1 and names the tensor when one differs by more than 1e-6.
"""
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

TOLERANCE = 1e-6
OF_SUMS = 4e-6  # of the losses of quantiles, which are sums of 121 terms in float32
ATOMS, LEAST, MOST = 11, -3.0, 3.0
TAU = 0.1


class Networks:
    """Parameters by name, as Tandem's modules call them, and perceptrons with ReLU between their layers."""

    def __init__(self, tensors, prefix):
        self.tensors = {name[len(prefix):]: t.clone() for name, t in tensors.items() if name.startswith(prefix)}

    def learn(self, *beginnings):
        chosen = [t.requires_grad_() for name, t in self.tensors.items() if name.startswith(beginnings)]
        return chosen

    def mlp(self, name, x, noise=None):
        parts = {key[len(name) + 1:].split(".")[0] for key in self.tensors if key.startswith(name + ".")}
        layers = sorted(int(part) for part in parts if part.isdigit())
        for i in layers:
            weight, bias = self.tensors[f"{name}.{i}.weight"], self.tensors[f"{name}.{i}.bias"]
            if noise:  # Fortunato et al. (2018), equations 9 to 11
                stream = name.split(".")[-1]
                inputs, outputs = noise[f"{stream}.{i}.inputs"], noise[f"{stream}.{i}.outputs"]
                weight = weight + self.tensors[f"{name}_deviation.{i}.weight"] * outputs[:, None] * inputs[None, :]
                bias = bias + self.tensors[f"{name}_deviation.{i}.bias"] * outputs
            x = F.linear(x, weight, bias)
            scale, shift = (self.tensors.get(f"{name}.norm_{i}.{kind}") for kind in ("weight", "bias"))
            if scale is not None:
                x = F.layer_norm(x, scale.shape, scale, shift)
            x = F.relu(x) if i < layers[-1] else x
        return x

    def critics(self, observation, action, chosen=None):
        pair = torch.cat([observation, action], 1)
        if chosen is None:
            chosen = sorted({int(key.split(".")[1]) for key in self.tensors if key.startswith("critics.")})
        return torch.stack([self.mlp(f"critics.{int(i)}", pair).squeeze(1) for i in chosen])


def follow(networks, target, beginnings):
    with torch.no_grad():
        for name, slow in target.tensors.items():
            if name.startswith(beginnings):
                slow.add_(TAU * (networks.tensors[name] - slow))


def draw(networks, observation, noise):
    mean, log_std = networks.mlp("actor.net", observation).chunk(2, 1)
    log_std = log_std.clamp(-20, 2)
    normal = torch.distributions.Normal(mean, log_std.exp())
    u = mean + log_std.exp() * noise
    log_prob = (normal.log_prob(u) - 2 * (torch.log(torch.tensor(2.0)) - u - F.softplus(-2 * u))).sum(1)
    return torch.tanh(u), log_prob


def step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def sac(before, rows, has_mean):
    net, target = Networks(before, "before."), Networks(before, "before.")
    critics = torch.optim.Adam(net.learn("critics."), lr=3e-4)
    actor = torch.optim.Adam(net.learn("actor.", "log_temperature"), lr=3e-4)
    for r in rows:
        temperature = net.tensors["log_temperature"].exp().detach()
        with torch.no_grad():
            action, log_prob = draw(net, r["next_observation"], r["noise.0"])
            least = target.critics(r["next_observation"], action, r["chosen"]).min(0).values
            y = r["reward"] + r["discount"] * (least - temperature * log_prob)
        q = net.critics(r["observation"], r["action"])
        r["my_errors"] = (q - y).abs().mean(0).detach()
        step(critics, sum(0.5 * (r["weight"] * (each - y) ** 2).mean() for each in q))
        action, log_prob = draw(net, r["observation"], r["noise.1"])
        q = net.critics(r["observation"], action)
        policy = (temperature * log_prob - (q.mean(0) if has_mean else q.min(0).values)).mean()
        entropy = -(net.tensors["log_temperature"] * (log_prob.detach() - 3)).mean()
        step(actor, policy + entropy)
        follow(net, target, "critics.")
    return net, target


def sac_of_choices(before, rows):
    """As CleanRL's sac_atari.py, but for 1/2 of the squared errors, weights, masks, of whose choices alone the entropy
    is to be 0.89 of the most, and the temperature's loss, which is that of sac() above."""
    net, target = Networks(before, "before."), Networks(before, "before.")
    critics = torch.optim.Adam(net.learn("critics."), lr=3e-4)
    actor = torch.optim.Adam(net.learn("actor.", "log_temperature"), lr=3e-4)

    def choices(observation, mask):
        logits = net.mlp("actor.net", observation)
        policy = torch.distributions.Categorical(logits=logits if mask is None else logits.where(mask != 0, -1e8))
        return policy.probs, F.log_softmax(policy.logits, 1)

    def values(networks, observation):
        return torch.stack([networks.mlp(f"critics.{i}.net", observation) for i in range(2)])

    for r in rows:
        temperature = net.tensors["log_temperature"].exp().detach()
        with torch.no_grad():
            p, log_p = choices(r["next_observation"], r.get("next_action_mask"))
            least = values(target, r["next_observation"]).min(0).values
            y = r["reward"] + r["discount"] * (p * (least - temperature * log_p)).sum(1)
        index = r["action"].view(1, -1, 1).expand(2, -1, 1)
        q = values(net, r["observation"]).gather(2, index).squeeze(2)
        r["my_errors"] = (q - y).abs().mean(0).detach()
        step(critics, sum(0.5 * (r["weight"] * (each - y) ** 2).mean() for each in q))
        p, log_p = choices(r["observation"], r.get("action_mask"))
        with torch.no_grad():
            least = values(net, r["observation"]).min(0).values
        policy = (p * (temperature * log_p - least)).sum(1).mean()
        entropy = -(p * log_p).sum(1).mean().detach()
        mask = r.get("action_mask")
        most = math.log(4) if mask is None else mask.sum(1).double().log().mean().item()
        step(actor, policy + net.tensors["log_temperature"] * (entropy - 0.89 * most))
        follow(net, target, "critics.")
    return net, target


def td3(before, rows):
    net, target = Networks(before, "before."), Networks(before, "before.")
    critics = torch.optim.Adam(net.learn("critics."), lr=3e-4)
    actor = torch.optim.Adam(net.learn("actor."), lr=3e-4)
    for turn, r in enumerate(rows):
        with torch.no_grad():
            noise = (0.2 * r["noise.0"]).clamp(-0.5, 0.5)
            action = (torch.tanh(target.mlp("actor.net", r["next_observation"])) + noise).clamp(-1, 1)
            y = r["reward"] + r["discount"] * target.critics(r["next_observation"], action, r["chosen"]).min(0).values
        q = net.critics(r["observation"], r["action"])
        r["my_errors"] = (q - y).abs().mean(0).detach()
        step(critics, sum((r["weight"] * (each - y) ** 2).mean() for each in q))
        if turn % 2 == 1:
            action = torch.tanh(net.mlp("actor.net", r["observation"]))
            step(actor, -net.critics(r["observation"], action)[0].mean())
            follow(net, target, ("actor.", "critics."))
    return net, target


def noise_of(row, who):
    return {name[len(who) + 1:]: t for name, t in row.items() if name.startswith(who + ".")}


def returns_of(net, observation, is_dueling, numbers, noise):
    if not is_dueling:
        return net.mlp("q.net", observation, noise).view(-1, 4, numbers)
    value = net.mlp("q.value", observation, noise).view(-1, 1, numbers)
    advantage = net.mlp("q.advantage", observation, noise).view(-1, 4, numbers)
    return value + advantage - advantage.mean(1, keepdim=True)


def projected(probabilities, support, reward, discount):
    """Algorithm 1 of Bellemare, Dabney, Munos (2017), row by row and atom by atom."""
    out = torch.zeros_like(probabilities)
    width = (MOST - LEAST) / (ATOMS - 1)
    for row in range(out.size(0)):
        for j in range(ATOMS):
            moved = min(max((reward[row] + discount[row] * support[j]).item(), LEAST), MOST)
            b = (moved - LEAST) / width
            low, high = int(b // 1), min(int(b // 1) + 1, ATOMS - 1)
            out[row, low] += probabilities[row, j] * (1 - (b - low))
            out[row, high] += probabilities[row, j] * (b - low)
    return out


def quantile_loss(theta, samples):
    """Equation 10 of Dabney et al. (2018), with the threshold 1."""
    n, loss = theta.size(1), 0.0
    for i in range(n):
        tau = (i + 0.5) / n
        for j in range(samples.size(1)):
            u = samples[:, j] - theta[:, i]
            huber = torch.where(u.abs() <= 1, 0.5 * u ** 2, u.abs() - 0.5)
            loss = loss + (tau - (u.detach() < 0).float()).abs() * huber
    return loss / samples.size(1)


def dqn(before, rows, kind, is_double, is_dueling):
    net, target = Networks(before, "before."), Networks(before, "before.")
    optimizer = torch.optim.Adam(net.learn("q."), lr=1e-4)
    numbers = 1 if kind == "mean" else ATOMS
    support = torch.linspace(LEAST, MOST, ATOMS)

    def means(returns):
        return (returns.softmax(2) * support).sum(2) if kind == "categorical" else returns.mean(2)

    for r in rows:
        index = torch.arange(r["action"].numel())
        own, slow = noise_of(r, "own"), noise_of(r, "target")
        with torch.no_grad():
            after = returns_of(target, r["next_observation"], is_dueling, numbers, slow)
            judge = returns_of(net, r["next_observation"], is_dueling, numbers, own) if is_double else after
            after = after[index, means(judge).argmax(1)]
        mine = returns_of(net, r["observation"], is_dueling, numbers, own)[index, r["action"]]
        if kind == "categorical":
            wanted = projected(after.softmax(1), support, r["reward"], r["discount"])
            each = -(wanted * mine.log_softmax(1)).sum(1)
        elif kind == "quantiles":
            each = quantile_loss(mine, r["reward"][:, None] + r["discount"][:, None] * after)
        else:
            y = r["reward"] + r["discount"] * after[:, 0]
            each = F.smooth_l1_loss(mine[:, 0], y, reduction="none")
        r["my_errors"] = (mine[:, 0] - y).abs().detach() if kind == "mean" else each.detach()
        step(optimizer, (r["weight"] * each).mean())
        follow(net, target, "q.")
    return net, target


def compare(path):
    tensors = load_file(path)
    rows = []
    for turn in range(2):
        begin = f"rows.{turn}."
        rows.append({name[len(begin):]: t for name, t in tensors.items() if name.startswith(begin)})
    kind = path.stem.split("-")
    # What a case is about must be there, or both sides would leave it out alike.
    needed = {"redq": "before.critics.3.norm_0.weight", "noisy": "rows.0.own"}
    for word, name in needed.items():
        if (word in kind) != any(each.startswith(name) for each in tensors):
            raise SystemExit(f"{path.stem}: {name} should be there, or should not")
    if kind[0] == "dqn":
        net, target = dqn(tensors, rows, kind[1], kind[2] == "double", kind[3] == "dueling")
    elif kind[0] == "sac":
        net, target = sac(tensors, rows, "redq" in kind)
    elif kind[0] == "choices":
        net, target = sac_of_choices(tensors, rows)
    else:
        net, target = td3(tensors, rows)
    worst, count = {}, 0
    for name, theirs in tensors.items():
        when, _, rest = name.partition(".")
        mine = {"after": net.tensors.get(rest), "target": target.tensors.get(rest)}.get(when)
        if when == "errors":
            mine = rows[int(rest)]["my_errors"]
        if mine is None:
            continue
        count += 1
        # Relative where numbers are above 1, as sums over many quantiles are.
        difference = (mine.detach().double() - theirs.double()).abs() / theirs.double().abs().clamp(min=1)
        worst[name] = difference.max().item()
    moved = max((tensors["after." + n] - t).abs().max().item() for n, t in Networks(tensors, "before.").tensors.items())
    return worst, count, moved


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True, timeout=120)
        cases = sorted(pathlib.Path(folder).glob("*/*.safetensors"))
        if len(cases) != 28:
            raise SystemExit(f"expected 28 cases, found {len(cases)}")
        for case in cases:
            worst, count, moved = compare(case)
            faults = [f"{name} by {d:.3g}" for name, d in worst.items()
                      if not d <= (OF_SUMS if name.startswith("errors") else TOLERANCE)]
            failed |= bool(faults) or count < 10 or moved < 1e-5
            print(f"{case.stem}, {case.parent.name}: {count} tensors, largest difference {max(worst.values()):.2g}, "
                  + f"learned {moved:.2g}"
                  + (f"; DIFFERS: {', '.join(faults)}" if faults else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
