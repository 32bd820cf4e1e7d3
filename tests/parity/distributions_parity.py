#!/usr/bin/env python3
"""Compares Tandem's distributions with torch.distributions: log_prob, entropy, KL, mode and all gradients.

usage: distributions_parity.py PATH/TO/distribution_values

The driver prints parameters, actions and what Tandem computes from them; this recomputes everything with
torch.distributions from the same parameters. Exits with 1 and names the quantity when anything differs.
"""
import json
import subprocess
import sys

import torch
from torch import distributions as D

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def tensor(entry, dtype):
    return torch.tensor([float(v) for v in entry["values"]], dtype=dtype).reshape(entry["shape"])


class Choices:
    """Several Categoricals side by side, which torch.distributions has no class for."""

    def __init__(self, logits, nvec):
        self.parts = [D.Categorical(logits=part) for part in logits.split(nvec, dim=-1)]

    def log_prob(self, actions):
        return sum(part.log_prob(actions[..., i]) for i, part in enumerate(self.parts))

    def entropy(self):
        return sum(part.entropy() for part in self.parts)

    def kl(self, other):
        return sum(D.kl_divergence(p, q) for p, q in zip(self.parts, other.parts))

    @property
    def mode(self):
        return torch.stack([part.mode for part in self.parts], dim=-1)


def masked(logits, mask):
    # torch.distributions needs finite numbers in its entropy; its own minimum stands for an excluded choice.
    return logits if mask is None else torch.where(mask != 0, logits, torch.finfo(logits.dtype).min)


def make(family, x):
    """(distribution, the one that KL is taken to, kl, mode)"""
    if family == "Categorical":
        mask = x.get("mask")
        p = D.Categorical(logits=masked(x["logits"], mask))
        q = D.Categorical(logits=masked(x["q_logits"], mask))
        return p, D.kl_divergence(p, q), p.mode
    if family == "MultiCategorical":
        nvec = [int(n) for n in x["nvec"]]
        p, q = Choices(x["logits"], nvec), Choices(x["q_logits"], nvec)
        return p, p.kl(q), p.mode
    if family in ("Normal", "SquashedNormal"):
        p = D.Independent(D.Normal(x["mean"], x["log_std"].exp()), 1)
        q = D.Independent(D.Normal(x["q_mean"], x["q_log_std"].exp()), 1)
        if family == "Normal":
            return p, D.kl_divergence(p, q), p.mode
        squash = D.transforms.TanhTransform(cache_size=1)
        return D.TransformedDistribution(p, [squash]), D.kl_divergence(p, q), torch.tanh(x["mean"])
    if family == "StateDependentNoise":
        def marginal(mean, latent, log_std):
            return D.Independent(D.Normal(mean, torch.sqrt(latent**2 @ log_std.exp() ** 2 + 1e-6)), 1)
        p = marginal(x["mean"], x["latent"], x["log_std"])
        q = marginal(x["q_mean"], x["latent"].detach(), x["q_log_std"])
        return p, D.kl_divergence(p, q), x["mean"]
    raise SystemExit(f"the driver printed a family that this script does not know: {family}")


def compare(case):
    dtype = getattr(torch, case["dtype"])
    x = {name: tensor(entry, dtype) for name, entry in case["inputs"].items()}
    for name, value in x.items():
        if not name.startswith("q_") and name not in ("mask", "nvec"):
            value.requires_grad_()
    p, kl, mode = make(case["family"], x)
    actions = tensor(case["outputs"]["actions"], dtype)
    log_prob = p.log_prob(actions)
    expected = {"log_prob": log_prob, "kl": kl, "mode": mode}
    total = log_prob.sum() + 0.3 * kl.sum()
    if case["family"] != "SquashedNormal":
        expected["entropy"] = p.entropy()
        total = total + 0.7 * expected["entropy"].sum()
    total.backward()
    expected.update({f"grad_{name}": value.grad for name, value in x.items() if value.grad is not None})

    mine = {name: tensor(entry, dtype) for name, entry in case["outputs"].items() if name != "actions"}
    if set(mine) != set(expected):
        return [f"quantities differ: driver {sorted(mine)}, here {sorted(expected)}"], 0
    faults, worst = [], 0.0
    for name, value in expected.items():
        error = ((mine[name] - value.to(dtype)).abs() / (1 + value.abs())).max().item()
        worst = max(worst, error)
        if mine[name].shape != value.shape or not error <= TOLERANCE[case["dtype"]]:
            faults.append(f"{name}: differs by {error:.3g} (relative to 1 + |value|)")
    return faults, worst


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    cases = json.loads(subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout)
    failed = False
    for case in cases:
        faults, worst = compare(case)
        label = f"{case['family']:20} {case['dtype']} {'masked' if 'mask' in case['inputs'] else '':6}"
        print(f"{label} worst difference {worst:.2e} {'; '.join(faults)}")
        failed = failed or bool(faults)
    if len(cases) < 24:
        raise SystemExit(f"only {len(cases)} cases came from the driver")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
