"""The tasks of bench/defaults/tasks for Gymnasium, number for number, so that other libraries can be tried on them.

`register()` makes them known to gymnasium.make() by the same names. Equal seeds give equal episodes: both draw from
NumPy's default generator in the same order.
"""

import math

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def clamp(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


class Task(gym.Env):
    """What the tasks share: the generator, and float32 actions read as doubles."""

    observation_size = 0
    limit = 0

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.observation_size,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin(self.np_random)
        return self.shown(), {}

    def step(self, action):
        reward, terminated = self.move(action)
        return self.shown(), float(reward), bool(terminated), False, {}

    def shown(self):
        return np.asarray(self.observation(), dtype=np.float32)


class PointReach(Task):
    observation_size, limit = 6, 100
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def begin(self, random):
        self.place = [random.uniform(-1, 1) for _ in range(2)]
        self.goal = [random.uniform(-1, 1) for _ in range(2)]
        self.velocity = [0.0, 0.0]

    def move(self, force):
        for i in range(2):
            self.velocity[i] = 0.95 * self.velocity[i] + 0.1 * float(force[i])
            self.place[i] += 0.1 * self.velocity[i]
        return -math.hypot(*self.observation()[4:]), False

    def observation(self):
        return [*self.place, *self.velocity, self.goal[0] - self.place[0], self.goal[1] - self.place[1]]


class ArmReach(Task):
    observation_size, limit = 8, 100
    action_space = spaces.Box(np.float32([-1, -0.5]), np.float32([1, 2]))

    def begin(self, random):
        self.joint = [random.uniform(-0.1, 0.1) for _ in range(2)]
        self.speed = [0.0, 0.0]
        angle = random.uniform(0, 2 * math.pi)
        distance = random.uniform(0.3, 1.8)
        self.goal = [distance * math.cos(angle), distance * math.sin(angle)]

    def move(self, torque):
        for i in range(2):
            self.speed[i] = 0.9 * self.speed[i] + 0.3 * float(torque[i])
            self.joint[i] += 0.3 * self.speed[i]
        return -math.hypot(*self.observation()[6:]), False

    def observation(self):
        a, b = self.joint
        x, y = math.cos(a) + math.cos(a + b), math.sin(a) + math.sin(a + b)
        return [math.cos(a), math.sin(a), math.cos(b), math.sin(b), *self.speed, self.goal[0] - x, self.goal[1] - y]


class PlanarQuad(Task):
    observation_size, limit = 6, 200
    action_space = spaces.Box(0, 20, (2,), np.float32)

    def begin(self, random):
        x, y = random.uniform(-1, 1), random.uniform(-1, 1)
        self.state = [x, y, 0.0, 0.0, random.uniform(-0.3, 0.3), 0.0]

    def move(self, push):
        left, right = (clamp(float(p), 0, 20) for p in push)
        x, y, vx, vy, tilt, spin = self.state
        vx -= 0.02 * math.sin(tilt) * (left + right)
        vy += 0.02 * (math.cos(tilt) * (left + right) - 9.81)
        spin += 0.02 * (right - left) * 2
        x += 0.02 * vx
        y += 0.02 * vy
        tilt += 0.02 * spin
        self.state = [x, y, vx, vy, tilt, spin]
        crashed = abs(x) > 3 or abs(y) > 3 or abs(tilt) > 1.2
        cost = 0.3 * (x * x + y * y) + 0.05 * (vx * vx + vy * vy) + 0.3 * tilt * tilt + 0.02 * spin * spin
        return (-20.0 if crashed else max(1 - cost, -1.0)), crashed

    def observation(self):
        return self.state


class SoftLander(Task):
    observation_size, limit = 3, 120
    action_space = spaces.Discrete(3)

    def begin(self, random):
        self.height, self.speed, self.fuel = random.uniform(20, 40), random.uniform(-6, 0), 100.0

    def move(self, thrust):
        burnt = min(self.fuel, float(thrust))
        self.fuel -= burnt
        self.speed += 0.2 * (burnt * 1.6 - 1.62)
        self.height += 0.2 * self.speed
        landed, lost = self.height <= 0, self.height > 60
        reward = -0.02 * burnt + (20 - 4 * abs(self.speed) if landed else 0) - (50 if lost else 0)
        return reward, landed or lost

    def observation(self):
        return [self.height, self.speed, self.fuel]


class Servo(Task):
    observation_size, limit = 3, 150
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def begin(self, random):
        self.angle, self.goal, self.speed = random.uniform(-2, 2), random.uniform(-2, 2), 0.0

    def move(self, torque):
        pull = clamp(float(torque[0]), -100, 100)
        self.speed = clamp(self.speed + 0.05 * (pull - 0.5 * self.speed), -20, 20)
        self.angle += 0.05 * self.speed
        error = self.goal - self.angle
        return -(error * error + 0.01 * self.speed * self.speed + 0.001 * pull * pull), False

    def observation(self):
        return [self.angle, self.speed, self.goal]


class Heater(Task):
    observation_size, limit = 3, 500
    action_space = spaces.Box(0, 1, (1,), np.float32)

    def begin(self, random):
        self.room = self.wall = random.uniform(285, 305)
        self.phase, self.time = random.uniform(0, 2 * math.pi), 0

    def move(self, power):
        heat = clamp(float(power[0]), 0, 1)
        self.wall += 0.05 * (self.room - self.wall) + 0.02 * (self.outside() - self.wall)
        self.room += 0.1 * (self.wall - self.room) + 0.6 * heat
        self.time += 1
        return 1e-3 * (1 - min(abs(self.room - 295), 5.0) - 0.1 * heat), False

    def outside(self):
        return 283 + 8 * math.sin(self.phase + 0.02 * self.time)

    def observation(self):
        return [self.room, self.wall, self.outside()]


class Reservoir(Task):
    observation_size, limit = 4, 48
    action_space = spaces.Box(0, 150, (1,), np.float32)

    def begin(self, random):
        self.volume, self.hour = random.uniform(1000, 4000), 0
        self.inflow = random.uniform(0, 60)

    def move(self, outlet):
        flow = min(clamp(float(outlet[0]), 0, 150), self.volume / 10)
        earned = flow * self.price() * (0.5 + self.volume / 5000) * 300
        self.volume = min(self.volume + 10 * (self.inflow - flow), 5000.0)
        self.hour += 1
        self.inflow = self.np_random.uniform(0, 60)
        return earned, False

    def price(self):
        return 60 + 40 * math.sin(2 * math.pi * self.hour / 24)

    def observation(self):
        return [self.volume, self.inflow, self.price(), 48 - self.hour]


class Cruise(Task):
    observation_size, limit = 3, 2000
    action_space = spaces.Box(np.float32([-0.02]), np.float32([0.05]))

    def begin(self, random):
        self.speed, self.goal, self.wind = random.uniform(15, 35), random.uniform(20, 30), 0.0

    def move(self, pedal):
        push = clamp(float(pedal[0]), -0.02, 0.05)
        self.wind = 0.99 * self.wind + self.np_random.uniform(-0.3, 0.3)
        air = self.speed + self.wind
        self.speed += 10 * push - 0.0002 * air * abs(air)
        if self.np_random.random() < 0.002:
            self.goal = self.np_random.uniform(20, 30)
        return -min(abs(self.goal - self.speed), 5.0) / 5, False

    def observation(self):
        return [self.speed, self.wind, self.goal]


class ContextBandit(Task):
    observation_size, limit = 8, 1
    action_space = spaces.Discrete(5)

    def begin(self, random):
        self.context = int(random.integers(0, 8))

    def move(self, arm):
        chance = 0.9 if arm == (3 * self.context + 1) % 5 else 0.4
        return (1.0 if self.np_random.random() < chance else 0.0), True

    def observation(self):
        return [float(i == self.context) for i in range(8)]


class KeyDoor(Task):
    limit = 100
    observation_space = spaces.MultiDiscrete([7, 7, 2])
    action_space = spaces.Discrete(4)

    def __init__(self):
        pass

    def begin(self, random):
        self.x, self.y, self.key = int(random.integers(0, 7)), int(random.integers(0, 7)), 0

    def move(self, way):
        self.x = min(max(self.x + (1, -1, 0, 0)[way], 0), 6)
        self.y = min(max(self.y + (0, 0, 1, -1)[way], 0), 6)
        if (self.x, self.y) == (0, 6):
            self.key = 1
        out = self.key == 1 and (self.x, self.y) == (6, 0)
        return (1.0 if out else -0.005), out

    def shown(self):
        return np.array([self.x, self.y, self.key])


class SwitchBoard(Task):
    observation_size, limit = 12, 40
    action_space = spaces.MultiDiscrete([3, 4, 5])

    def begin(self, random):
        self.dials = [int(random.integers(0, places)) for places in (3, 4, 5)]

    def move(self, places):
        right = sum(int(place) == dial for place, dial in zip(places, self.dials))
        self.begin(self.np_random)
        return (1.0 if right == 3 else 0.1 * right), False

    def observation(self):
        return [float(i == dial) for places, dial in zip((3, 4, 5), self.dials) for i in range(places)]


class Crossing(Task):
    observation_size, limit = 4, 200
    action_space = spaces.Discrete(2)

    def begin(self, random):
        self.waiting = [int(random.integers(0, 20)) for _ in range(2)]
        self.green = self.amber = 0

    def move(self, change):
        if self.amber > 0:
            self.amber -= 1
            if self.amber == 0:
                self.green = 1 - self.green
        elif change == 1:
            self.amber = 3
        for road, arrives in enumerate((0.5, 0.2)):
            if self.np_random.random() < arrives and self.waiting[road] < 60:
                self.waiting[road] += 1
        if self.amber == 0:
            self.waiting[self.green] = max(0, self.waiting[self.green] - 1)
        return -sum(self.waiting), False

    def observation(self):
        return [*self.waiting, self.green, self.amber]


TASKS = (PointReach, ArmReach, PlanarQuad, SoftLander, Servo, Heater, Reservoir, Cruise, ContextBandit, KeyDoor,
         SwitchBoard, Crossing)


def register() -> None:
    for task in TASKS:
        gym.register(id=f"{task.__name__}-v0", entry_point=task, max_episode_steps=task.limit)
