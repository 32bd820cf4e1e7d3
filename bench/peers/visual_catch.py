"""VisualCatch-v0 for Gymnasium: what bench/env/visual_catch.cc is for Tandem."""

import gymnasium
import numpy

CELLS, SCALE, PICTURES = 12, 7, 4


class VisualCatch(gymnasium.Env):
    """Four pictures, the latest last; those before the episode are black."""

    observation_space = gymnasium.spaces.Box(0, 255, (PICTURES, CELLS * SCALE, CELLS * SCALE), numpy.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._pictures = numpy.zeros(self.observation_space.shape, numpy.uint8)
        self._row, self._column, self._paddle = 0, int(self.np_random.integers(0, CELLS)), CELLS // 2
        self._draw()
        return self._pictures.copy(), {}

    def step(self, action):
        self._paddle = min(max(self._paddle + int(action) - 1, 0), CELLS - 1)
        self._row += 1
        self._pictures[:-1] = self._pictures[1:]
        self._draw()
        is_down = self._row == CELLS - 1
        reward = (1.0 if self._paddle == self._column else -1.0) if is_down else 0.0
        return self._pictures.copy(), reward, is_down, False, {}

    def _draw(self):
        picture = self._pictures[-1]
        picture[:] = 0
        for row, column in ((self._row, self._column), (CELLS - 1, self._paddle)):
            picture[row * SCALE : (row + 1) * SCALE, column * SCALE : (column + 1) * SCALE] = 255


def register():
    gymnasium.register("VisualCatch-v0", VisualCatch)
