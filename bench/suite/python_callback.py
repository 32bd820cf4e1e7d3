"""What a callback in Python costs a training."""

import json

from harness.model import Bench, Better, Contender, Metric, Sample, Size, Unavailable, WrongAnswer
from harness.process import run

FULL, SMOKE = (5_000, 8), (50, 1)  # updates of a training, rounds


class PythonCallback(Bench):
    name = "python_callback"
    question = (
        "How many microseconds does an update cost more with on_update=, a function of Python's that gets its metrics "
        "(PPO on CartPole-v1, 64 steps an update, one replica)?"
    )
    metrics = (Metric("an update more", "us", Better.LOWER, at_most=20), Metric("an update", "us", Better.LOWER))

    def contenders(self) -> list[Contender]:
        self._python = self.place.root / ".venv" / "python" / "bin" / "python"
        self._package = self.place.programs.parent / "python"
        if not (self._python.exists() and (self._package / "tandem").exists()):
            raise Unavailable("this build has no Python package")
        return [Contender("tandem", self._measure)]

    def _measure(self, size: Size) -> Sample:
        updates, rounds = FULL if size is Size.FULL else SMOKE
        script = self.place.root / "bench" / "harness" / "callback_price.py"
        done = run([self._python, script, updates, rounds], environment={"PYTHONPATH": str(self._package)})
        price = json.loads(done.stdout.splitlines()[-1])
        if price["seen"] != updates * rounds:
            raise WrongAnswer(f"the callback was called {price['seen']} times in {updates * rounds} updates")
        return Sample({"an update more": price["more_us"], "an update": price["update_us"]})


BENCH = PythonCallback
