#!/usr/bin/env python3
"""Plays the later tasks with random actions, with the best constant action of a grid, and with a controller written by
hand that sees what a policy sees. Prints the mean returns and the standard deviations over episodes, and fails where a
controller is not clearly better. The constant is chosen in a quarter of the episodes and then played in all.

usage: later_controllers.py [EPISODES]
"""

import itertools
import math
import statistics
import sys

import gymnasium as gym
import later_twins
import numpy as np
from twins import clamp


def crane(seen):
    """Holds the hook's goal by the trolley's place, and damps the swing."""
    place, speed, swing, swing_speed, goal, rope, load = seen
    wish = clamp(0.35 * (goal - place - rope * math.sin(swing)), -1.8, 1.8)
    return [(200 + load) * (1.2 * (wish - speed) + 2.5 * swing) + 60 * speed]


def home(seen):
    """Charges car and battery in cheap hours below the tariff's limit, and sells what is stored in dear ones."""
    stored, missing, parked, now, *ahead, use, sun, clock = seen
    room = 7 - use + sun
    is_late = missing > 6 * (parked - 1)
    car = min(missing, room) if parked > 0 and (now < 0.2 or is_late) else 0.0
    if now < 0.2:
        return [clamp(room - car, 0, 3), car]
    return [-5.0 if now > 0.36 else 0.0, car]


def rover(seen):
    """Turns to the target, or to the free ray nearest to it."""
    rays, bearing = seen[:12], math.atan2(seen[14], seen[13])
    best, way = -math.inf, 0.0
    for i in range(12):
        angle = (2 * math.pi * i / 12 + math.pi) % (2 * math.pi) - math.pi
        free = min(rays[i], 1.3 * rays[i - 1], 1.3 * rays[(i + 1) % 12])
        off = abs((angle - bearing + math.pi) % (2 * math.pi) - math.pi)
        worth = -off - (4 if free < min(0.9, seen[12]) else 0)
        if worth > best:
            best, way = worth, bearing if off < 0.3 else angle
    front = min(rays[0], 1.2 * rays[1], 1.2 * rays[11])
    return [clamp(min(1.5 * math.cos(way), 1.2 * (front - 0.35)), 0, 1.5), 3 * way]


class Lift:
    """Goes on in its direction while somebody wants to go there or waits there."""

    up = True

    def __call__(self, seen):
        floor, riding, waiting = int(seen[0]), seen[1:7], seen[7:13]
        wanted = [r > 0 or (w > 0 and sum(riding) < 6) for r, w in zip(riding, waiting)]
        if wanted[floor]:
            return 2
        if not any(wanted):
            return 0
        if not any(wanted[floor + 1:] if self.up else wanted[:floor]):
            self.up = not self.up
        return 1 if self.up else 0


def frog(seen):
    """Steps where neither a car is nor one comes from: forward if possible, else to the middle."""
    screen = np.asarray(seen).reshape(7, 9)
    row, column = divmod(int(np.argmax(screen)), 9)

    def is_safe(row, column):
        if not 0 <= column <= 8:
            return False
        if not 1 <= row <= 5:
            return True
        before = column - 1 if row % 2 == 1 else column + 1
        return screen[row, column] != 128 and 0 <= before <= 8 and screen[row, before] != 128

    sides = [(2, row, column - 1), (3, row, column + 1)]
    ways = [(1, row - 1, column), (0, row, column), *sorted(sides, key=lambda way: abs(way[2] - 4))]
    return next((way for way, r, c in ways if is_safe(r, c)), 1)


def reactor(seen):
    """Inverts the plant: the rate that leads to the wanted share, its temperature, and the coolant for that."""
    share, kelvin, coolant, litres, feed, wanted, wanted_litres = seen
    flow = litres / 100
    rate = clamp((flow * (1 - share) - 1.5 * (wanted - share)) / share, 0.3, 3)
    goal = 8750 / math.log(7.2e10 / rate)
    warming = flow * (feed - kelvin) + 209.2 * 7.2e10 * math.exp(-8750 / kelvin) * share
    off = kelvin - (warming + 4 * (kelvin - goal)) / 4 - coolant
    step = min(range(5), key=lambda i: abs(off - (-5, -1, 0, 1, 5)[i]))
    return [step, 1 + round(clamp((wanted_litres - litres) / 2, -1, 1))]


CONTROLLERS = {"GantryCrane-v0": lambda: crane, "HomeEnergy-v0": lambda: home, "RoverPursuit-v0": lambda: rover,
               "Elevator-v0": Lift, "RoadFrog-v0": lambda: frog, "StirredReactor-v0": lambda: reactor}


def constants(space):
    """Nine values of each number, or all choices."""
    if isinstance(space, gym.spaces.Box):
        return itertools.product(*(np.linspace(a, b, 9).tolist() for a, b in zip(space.low, space.high)))
    if isinstance(space, gym.spaces.MultiDiscrete):
        return itertools.product(*(range(n) for n in space.nvec))
    return range(int(space.n))


def returns(env, act, episodes):
    """`act` makes the controller of an episode."""
    found = []
    for seed in range(episodes):
        seen, _ = env.reset(seed=1000 + seed)
        total, ended, controller = 0.0, False, act()
        while not ended:
            action = controller(seen.tolist())
            seen, reward, terminated, truncated, _ = env.step(action)
            total, ended = total + reward, terminated or truncated
        found.append(total)
    return found


def best_constant(env, episodes):
    """The best of the grid in a few episodes: its mean there is too good, since it was chosen by it."""
    return max(constants(env.action_space), key=lambda a: statistics.mean(returns(env, lambda: lambda _: a, episodes)))


def main() -> int:
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    later_twins.register()
    faults = []
    for name, controller in CONTROLLERS.items():
        env = gym.make(name, disable_env_checker=True)
        env.action_space.seed(1)
        drawn = returns(env, lambda: lambda _: env.action_space.sample(), episodes)
        few = max(episodes // 4, 5)
        held = best_constant(env, few)
        constant = statistics.mean(returns(env, lambda: lambda _: held, episodes))
        steered = returns(env, controller, episodes)
        spread = max(statistics.stdev(drawn), statistics.stdev(steered))
        print(f"{name:18s} random {statistics.mean(drawn):8.2f}  constant {constant:8.2f} of {held}  controller "
              f"{statistics.mean(steered):8.2f}  spread {statistics.stdev(drawn):.2f} {statistics.stdev(steered):.2f}")
        if statistics.mean(steered) < max(statistics.mean(drawn), constant) + 0.5 * spread:
            faults.append(f"{name}: the controller is not clearly better than random and constant actions")
    print("\n".join(faults) or "controllers: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
