"""The tasks of bench/defaults/later for Gymnasium, number for number: see twins.py."""

import math

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from twins import Task, clamp


class GantryCrane(Task):
    observation_size, limit = 7, 300
    action_space = spaces.Box(-800, 800, (1,), np.float32)

    def begin(self, random):
        self.place = random.uniform(2, 18)
        self.rope = random.uniform(3, 8)
        self.load = random.uniform(100, 400)
        self.speed = self.swing = self.swing_speed = 0.0
        self.draw_goal()

    def draw_goal(self):
        hook = self.hook()
        self.goal = self.np_random.uniform(2, 18)
        while abs(self.goal - hook) < 4:
            self.goal = self.np_random.uniform(2, 18)

    def hook(self):
        return self.place + self.rope * math.sin(self.swing)

    def move(self, force):
        push = clamp(float(force[0]), -800, 800)
        for _ in range(4):
            s, c = math.sin(self.swing), math.cos(self.swing)
            pull = self.load * s * (self.rope * self.swing_speed * self.swing_speed + 9.81 * c)
            a = (push - 60 * self.speed + pull) / (200 + self.load * s * s)
            self.swing_speed += 0.025 * (-(a * c + 9.81 * s) / self.rope - 0.02 * self.swing_speed)
            self.speed += 0.025 * a
            self.place += 0.025 * self.speed
            self.swing += 0.025 * self.swing_speed
            if self.place < 0 or self.place > 20:
                self.place, self.speed = clamp(self.place, 0.0, 20.0), 0.0
        away = abs(self.goal - self.hook())
        drift = self.speed + self.rope * self.swing_speed * math.cos(self.swing)
        reward = -0.02 * away
        if away < 0.5 and abs(drift) < 0.4:
            reward += 10
            self.draw_goal()
        return reward, False

    def observation(self):
        return [self.place, self.speed, self.swing, self.swing_speed, self.goal, self.rope, self.load]


class HomeEnergy(Task):
    observation_size, limit = 10, 30
    action_space = spaces.Box(np.float32([-5, 0]), np.float32([3, 11]))

    def begin(self, random):
        level, self.sun = random.uniform(-0.05, 0.05), random.random()
        self.prices = []
        for hour in range(34):
            clock = (16 + hour) % 24
            usual = 0.48 if 17 <= clock < 22 else 0.12 if clock < 6 else 0.1 if 11 <= clock < 15 else 0.28
            self.prices.append(usual + level + random.uniform(-0.04, 0.04))
        self.stored, self.missing = random.uniform(0, 15), random.uniform(10, 40)
        self.hour = 0
        self.use = random.uniform(0.3, 1.5)

    def move(self, power):
        battery = clamp(float(power[0]), -5, 3)
        battery = clamp(battery, -self.stored, (15 - self.stored) / 0.9)
        self.stored += 0.9 * battery if battery > 0 else battery
        car = min(clamp(float(power[1]), 0, 11), self.missing) if self.parked() > 0 else 0.0
        self.missing -= car
        bought = self.use + car + battery - self.solar()
        price = self.prices[self.hour]
        euros = -bought * price if bought > 0 else -bought * 0.8 * price
        euros -= 0.4 * max(bought - 7, 0.0)
        self.hour += 1
        if self.hour == 15:
            euros -= 0.8 * self.missing
        self.use = self.np_random.uniform(0.3, 1.5)
        return euros, False

    def parked(self):
        return max(15 - self.hour, 0)

    def solar(self):
        return 5 * self.sun * max(math.sin(math.pi * ((16 + self.hour) % 24 - 6) / 14), 0.0)

    def observation(self):
        missing = self.missing if self.parked() > 0 else 0.0
        return [self.stored, missing, self.parked(), *self.prices[self.hour:self.hour + 4], self.use, self.solar(),
                (16 + self.hour) % 24]


class RoverPursuit(Task):
    observation_size, limit = 17, 250
    action_space = spaces.Box(np.float32([-0.5, -2]), np.float32([1.5, 2]))

    def begin(self, random):
        self.x, self.y, self.speed = 5.0, 5.0, 0.0
        self.heading = random.uniform(-math.pi, math.pi)
        self.pillars = []
        for _ in range(7):
            x, y, radius = random.uniform(0, 10), random.uniform(0, 10), random.uniform(0.3, 0.8)
            if math.hypot(x - self.x, y - self.y) < radius + 0.8:
                x += 2.5
            self.pillars.append((x, y, radius))
        self.draw_target()

    def draw_target(self):
        self.target_x, self.target_y = self.np_random.uniform(1, 9), self.np_random.uniform(1, 9)
        self.course = self.np_random.uniform(-math.pi, math.pi)

    def move(self, order):
        before = self.away()
        self.speed += 0.3 * (clamp(float(order[0]), -0.5, 1.5) - self.speed)
        self.heading += 0.1 * clamp(float(order[1]), -2, 2)
        self.x += 0.1 * self.speed * math.cos(self.heading)
        self.y += 0.1 * self.speed * math.sin(self.heading)
        reward = before - self.away()
        self.fly()
        if self.nearest() < 0.2:
            return reward - 5, True
        if self.away() < 0.5:
            reward += 2
            self.draw_target()
        return reward, False

    def fly(self):
        self.course += self.np_random.uniform(-0.3, 0.3)
        self.target_x += 0.05 * math.cos(self.course)
        self.target_y += 0.05 * math.sin(self.course)
        if self.target_x < 1 or self.target_x > 9 or self.target_y < 1 or self.target_y > 9:
            self.course = math.atan2(5 - self.target_y, 5 - self.target_x)

    def away(self):
        return math.hypot(self.target_x - self.x, self.target_y - self.y)

    def nearest(self):
        room = min(self.x, 10 - self.x, self.y, 10 - self.y)
        for x, y, radius in self.pillars:
            room = min(room, math.hypot(x - self.x, y - self.y) - radius)
        return room

    def ray(self, angle):
        dx, dy, seen = math.cos(angle), math.sin(angle), 4.0
        for x, y, radius in self.pillars:
            along = (x - self.x) * dx + (y - self.y) * dy
            aside = (x - self.x) * dy - (y - self.y) * dx
            if along > 0 and abs(aside) < radius:
                seen = min(seen, along - math.sqrt(radius * radius - aside * aside))
        if dx > 1e-9:
            seen = min(seen, (10 - self.x) / dx)
        if dx < -1e-9:
            seen = min(seen, -self.x / dx)
        if dy > 1e-9:
            seen = min(seen, (10 - self.y) / dy)
        if dy < -1e-9:
            seen = min(seen, -self.y / dy)
        return seen

    def observation(self):
        rays = [self.ray(self.heading + 2 * math.pi * i / 12) for i in range(12)]
        bearing = math.atan2(self.target_y - self.y, self.target_x - self.x) - self.heading
        return [*rays, self.away(), math.cos(bearing), math.sin(bearing), self.speed,
                math.cos(self.course - self.heading)]


class Elevator(Task):
    observation_size, limit = 13, 300
    action_space = spaces.Discrete(3)

    def begin(self, random):
        self.floor = int(random.integers(0, 6))
        self.waiting, self.riding = [int(random.integers(0, 3)) for _ in range(6)], [0] * 6

    def move(self, order):
        if order == 0:
            self.floor = max(self.floor - 1, 0)
        elif order == 1:
            self.floor = min(self.floor + 1, 5)
        else:
            self.open()
        gone = 0
        for floor in range(6):
            if self.np_random.random() < (0.12 if floor == 0 else 0.024):
                self.waiting[floor] += 1
            if self.waiting[floor] > 8:
                self.waiting[floor] -= 1
                gone += 1
        return -0.1 * (sum(self.waiting) + sum(self.riding)) - gone, False

    def open(self):
        self.riding[self.floor] = 0
        while self.waiting[self.floor] > 0 and sum(self.riding) < 6:
            self.waiting[self.floor] -= 1
            to = int(self.np_random.integers(1, 6)) if self.floor == 0 else 0
            if self.floor > 0 and self.np_random.random() < 0.2:
                to = self.floor % 5 + 1
            self.riding[to] += 1

    def observation(self):
        return [self.floor, *self.riding, *self.waiting]


class RoadFrog(Task):
    limit = 200
    observation_space = spaces.Box(0, 255, (63,), np.uint8)
    action_space = spaces.Discrete(4)

    def __init__(self):
        pass

    def begin(self, random):
        self.cars = [[False] * 9 for _ in range(5)]
        for lane in range(5):
            for column in range(9):
                self.cars[lane][column] = random.random() < 0.15 + 0.03 * lane
        self.start()

    def start(self):
        self.row, self.column = 6, int(self.np_random.integers(2, 7))

    def move(self, way):
        reward = 0.0
        if way == 1:
            self.row -= 1
            reward = 0.1
        elif way == 2:
            self.column = max(self.column - 1, 0)
        elif way == 3:
            self.column = min(self.column + 1, 8)
        hit = self.is_hit()
        for lane in range(5):
            comes = self.np_random.random() < 0.15 + 0.03 * lane
            cars = self.cars[lane]
            self.cars[lane] = [comes, *cars[:8]] if lane % 2 == 0 else [*cars[1:], comes]
        if hit or self.is_hit():
            return reward, True
        if self.row == 0:
            reward += 1
            self.start()
        return reward, False

    def is_hit(self):
        return 1 <= self.row <= 5 and self.cars[self.row - 1][self.column]

    def shown(self):
        screen = np.zeros((7, 9), dtype=np.uint8)
        screen[1:6][np.array(self.cars)] = 128
        screen[self.row, self.column] = 255
        return screen.reshape(63)


class StirredReactor(Task):
    observation_size, limit = 7, 400
    action_space = spaces.MultiDiscrete([5, 3])

    def begin(self, random):
        self.share, self.kelvin = random.uniform(0.4, 0.8), random.uniform(335, 355)
        self.coolant, self.flow = random.uniform(315, 325), random.uniform(90, 110)
        self.feed = random.uniform(347, 353)
        self.draw_wishes()

    def draw_wishes(self):
        self.wanted, self.wanted_flow = self.np_random.uniform(0.35, 0.65), self.np_random.uniform(85, 115)

    def move(self, steps):
        self.coolant = clamp(self.coolant + (-5, -1, 0, 1, 5)[steps[0]], 290.0, 350.0)
        self.flow = clamp(self.flow + (-2, 0, 2)[steps[1]], 80.0, 120.0)
        for _ in range(5):
            rate = 7.2e10 * math.exp(-8750 / self.kelvin) * self.share
            warming = self.flow / 100 * (self.feed - self.kelvin) + 209.2 * rate
            self.share += 0.01 * (self.flow / 100 * (1 - self.share) - rate)
            self.kelvin += 0.01 * (warming + 4 * (self.coolant - self.kelvin))
            if self.kelvin > 400:
                return -1.0, True
        if self.np_random.random() < 0.01:
            self.draw_wishes()
        self.feed = clamp(self.feed + self.np_random.uniform(-0.2, 0.2), 345, 355)
        error, flow_error = abs(self.share - self.wanted), abs(self.flow - self.wanted_flow)
        return 0.007 * (1 - min(error / 0.2, 1.0)) + 0.003 * (1 - min(flow_error / 20, 1.0)), False

    def observation(self):
        return [self.share, self.kelvin, self.coolant, self.flow, self.feed, self.wanted, self.wanted_flow]


TASKS = (GantryCrane, HomeEnergy, RoverPursuit, Elevator, RoadFrog, StirredReactor)


def register() -> None:
    for task in TASKS:
        gym.register(id=f"{task.__name__}-v0", entry_point=task, max_episode_steps=task.limit)
