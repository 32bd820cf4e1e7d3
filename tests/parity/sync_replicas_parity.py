#!/usr/bin/env python3
"""Trains with TensorFlow's SyncReplicasOptimizer and with Tandem's SyncReplicas under tensorflow_compatible() options,
in the same order of arrivals, and compares the variables.

usage: sync_replicas_parity.py PATH/TO/sync_replicas_replay

A script says whose gradient arrives next; it is drawn from the workers that have a token, by TensorFlow's side, where
an arrival is confirmed by the accumulators before the coordinator may take. A worker's k-th gradient is of its k-th
batch and of the variables as they are. 1 to 4 workers, with and without backups, and with several gradients each; dense
gradients with momentum, sparse ones with plain SGD; moving averages. Exits with 1 and names the script, the turn and
the variable when any differs by more than the tolerance, or when a gradient is dropped on one side only, in 50 steps.

Tolerance: both compute in float32 and sum in another order; 50 steps stay within 1e-6. Rows of a sparse gradient come
in ascending order and once each: TensorFlow's accumulator takes them for that and does not look.
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np
import tensorflow.compat.v1 as tf
from safetensors.numpy import load_file, save_file

STEPS, TOLERANCE, PATIENCE = 50, 1e-6, 60
ROWS, INPUTS, OUTPUTS, TABLE = 3, 8, 4, 10
RATE, MOMENTUM, DECAY = {"dense": 0.1, "sparse": 0.5}, 0.9, 0.9
# Workers and gradients of a step.
SCRIPTS = ((1, 1), (1, 3), (2, 2), (2, 1), (2, 5), (3, 3), (3, 2), (4, 4), (4, 3), (4, 2))

Recorded = collections.namedtuple("Recorded", "turns tokens values accepted steps")


def draw(workers, aggregate, rng):
    """First values, and batches enough for every worker."""
    batches = (workers, 2 * STEPS * aggregate + workers * STEPS)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    rows = np.sort(np.argsort(rng.random((*batches, TABLE)))[..., :ROWS])
    return {
        "w": 0.3 * normal(INPUTS, OUTPUTS),
        "b": 0.3 * normal(OUTPUTS),
        "table": 0.3 * normal(TABLE, OUTPUTS),
        "x": normal(*batches, ROWS, INPUTS),
        "y": 0.5 * normal(*batches, ROWS, OUTPUTS),
        "rows": rows.astype(np.int64),
    }


class Worker:
    """One worker's optimizer; those of all share accumulators, tokens and variables by name."""

    def __init__(self, number, kind, data, variables, global_step, aggregate, workers, averages):
        self.number, self.sent, self.thread, self.failure = number, 0, None, None
        self.local_step = 0
        self.data = {name: data[name][number] for name in ("x", "y", "rows")}
        self.feeds = {
            "x": tf.placeholder(tf.float32, [ROWS, INPUTS]),
            "y": tf.placeholder(tf.float32, [ROWS, OUTPUTS]),
            "rows": tf.placeholder(tf.int64, [ROWS]),
        }
        z = tf.matmul(self.feeds["x"], variables["w"]) + variables["b"]
        if kind == "sparse":
            z += tf.gather(variables["table"], self.feeds["rows"])
        loss = tf.reduce_mean(tf.square(tf.tanh(z) - self.feeds["y"]))
        inner = (
            tf.train.MomentumOptimizer(RATE[kind], MOMENTUM)
            if kind == "dense"
            else tf.train.GradientDescentOptimizer(RATE[kind])
        )
        self.optimizer = tf.train.SyncReplicasOptimizer(
            inner, aggregate, workers, variable_averages=averages, variables_to_average=list(variables.values())
        )
        self.train = self.optimizer.minimize(loss, global_step=global_step, var_list=list(variables.values()))

    def send(self, session):
        feed = {place: self.data[name][self.sent] for name, place in self.feeds.items()}
        self.sent += 1

        def run():
            try:
                session.run(self.train, feed)  # returns with a token
            except tf.errors.OpError as error:
                self.failure = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def receive(self, token):
        self.thread.join(PATIENCE)
        if self.thread.is_alive() or self.failure:
            raise RuntimeError(f"TensorFlow's worker {self.number} got no token of step {token}: {self.failure}")
        self.thread, self.local_step = None, token


class Training:
    """The coordinator, and the script. What is in the token queue and the accumulators is counted along, so that it is
    known whose turn comes to an end; that it is so is confirmed by TensorFlow."""

    def __init__(self, kind, workers, aggregate, data):
        names = ("w", "b", "table") if kind == "sparse" else ("w", "b")
        self.variables = {name: tf.Variable(data[name], name=name) for name in names}
        global_step = tf.train.create_global_step()
        averages = tf.train.ExponentialMovingAverage(DECAY)
        self.workers = [
            Worker(n, kind, data, self.variables, global_step, aggregate, workers, None if n else averages)
            for n in range(workers)
        ]
        self.chief = self.workers[0].optimizer
        # The operations of TensorFlow's own hook, each run when the script says so instead of on a thread.
        self.make_step = self.chief.get_chief_queue_runner().enqueue_ops[0]
        self.initial_tokens = self.chief.get_init_tokens_op()
        self.gathered = [accumulator.num_accumulated() for accumulator, _ in self.chief._accumulator_list]
        self.state = {f"parameters.{name}": variable for name, variable in self.variables.items()}
        self.state.update({f"averages.{name}": averages.average(v) for name, v in self.variables.items()})
        self.aggregate, self.tokens_a_step = aggregate, max(aggregate, workers)

    def run(self, rng):
        recorded = Recorded([], [], [], [], [])
        with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=8)) as session:
            session.run(tf.global_variables_initializer())
            for worker in self.workers:
                if len(missing := session.run(worker.optimizer.ready_for_local_init_op)):
                    raise RuntimeError(f"TensorFlow's worker {worker.number} lacks {missing}")
                session.run(worker.optimizer.local_step_init_op)
            session.run(self.chief.chief_init_op)
            session.run(self.initial_tokens)
            tokens, step, count = collections.deque([0] * self.aggregate), 0, 0
            while step < STEPS:
                before = [each for each in self.workers if each.thread is None]
                worker = rng.choice(before)
                worker.send(session)
                is_fresh = worker.local_step == step
                count += is_fresh
                self.confirm(session, count)
                if tokens:
                    worker.receive(tokens.popleft())
                if count == self.aggregate:
                    session.run(self.make_step)
                    step, count = step + 1, 0
                    tokens.extend([step] * self.tokens_a_step)
                    for waiting in [each for each in self.workers if each.thread is not None]:
                        waiting.receive(tokens.popleft())
                had = set(before) - {worker}
                recorded.turns.append(worker.number)
                recorded.tokens.append([each.thread is None and each not in had for each in self.workers])
                recorded.accepted.append(is_fresh)
                recorded.steps.append(step)
                recorded.values.append(session.run(self.state))
        return recorded

    def confirm(self, session, count):
        deadline = time.monotonic() + PATIENCE
        while any(have != count for have in session.run(self.gathered)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"TensorFlow's accumulators do not come to {count} gradients")


def compare(name, data, recorded, ours):
    worst = 0
    for turn, theirs in enumerate(recorded.values):
        where = f"{name}: turn {turn}, at step {recorded.steps[turn]}"
        if bool(ours["accepted"][turn]) != recorded.accepted[turn]:
            return [f"{where}: TensorFlow {'accepted' if recorded.accepted[turn] else 'dropped'} the gradient"]
        for variable, value in theirs.items():
            difference = np.abs(value.astype(np.float64) - ours[variable][turn]).max()
            if not difference <= TOLERANCE:
                return [f"{where}: {variable} differs by {difference:.3g}"]
            worst = max(worst, difference)
    moved = np.abs(recorded.values[-1]["parameters.w"] - data["w"]).max()
    dropped = len(recorded.accepted) - sum(recorded.accepted)
    print(
        f"{name}: {recorded.steps[-1]} steps, {len(recorded.turns)} gradients, {dropped} dropped: "
        f"largest difference {worst:.2g}; w moved by {moved:.2g}"
    )
    return [] if moved > 0.1 else [f"{name}: nothing was trained"]


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    faults = []
    for number, (workers, aggregate) in enumerate(SCRIPTS):
        for kind in ("dense", "sparse"):
            rng = np.random.default_rng([number, kind == "sparse"])
            data = draw(workers, aggregate, rng)
            with tf.Graph().as_default():
                recorded = Training(kind, workers, aggregate, data).run(rng)
            with tempfile.TemporaryDirectory() as folder:
                told = {name: np.array(getattr(recorded, name), np.int64) for name in ("turns", "tokens")}
                save_file({**data, **told}, pathlib.Path(folder) / "script.safetensors")
                subprocess.run([sys.argv[1], folder, kind, str(aggregate)], check=True, timeout=300)
                ours = load_file(pathlib.Path(folder) / "replay.safetensors")
            faults += compare(f"{workers} workers, {aggregate} gradients a step, {kind}", data, recorded, ours)
    for fault in faults:
        print("FAULT:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
