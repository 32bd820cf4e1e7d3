#!/usr/bin/env python3
"""What bench/sync/straggler_bench.cc measures, with TensorFlow's SyncReplicasOptimizer, in two ways.

tensorflow: as its documentation says, each worker a process with a graph, a session and a server, variables on the
server of one more process, all on this host. "tensorflow, waiting" is the same with a gradient of each worker a step.
tensorflow, one session: workers are threads that share a graph and a session, so that processes, servers and their
messages are not measured.

usage: tensorflow_straggler.py [--smoke]
"""

import json
import multiprocessing
import os
import socket
import sys
import threading
import time

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np
import tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()

IS_SMOKE = "--smoke" in sys.argv[1:]
WIDTHS, ROWS, SLEEP_S = (100, 256, 256, 10), 64, 0.2
WARM_UP = 10 if IS_SMOKE else 100  # steps, of workers in one session
WARM_UP_S = 0.1 if IS_SMOKE else 1.5  # of processes: initial tokens let them run ahead of a straggler for a while


def loss_of(worker, weights):
    """Of a worker's rows, which are the same in every step."""
    x = np.sin(np.arange(ROWS * WIDTHS[0], dtype=np.float32).reshape(ROWS, WIDTHS[0]) + worker)
    for number, (w, b) in enumerate(weights):
        x = tf.matmul(x, w) + b
        x = tf.tanh(x) if number + 1 < len(weights) else x
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=np.arange(ROWS) % WIDTHS[-1], logits=x))


class Worker:
    def __init__(self, number, weights, step, aggregate, workers):
        self.optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.01), aggregate, workers)
        self.train = self.optimizer.minimize(loss_of(number, weights), global_step=step)
        self.offered = 0


def draw_weights():
    rng = np.random.default_rng(3)
    draw = lambda *shape: tf.Variable((rng.uniform(-1, 1, shape) / np.sqrt(shape[0])).astype(np.float32))
    return [(draw(a, b), draw(b)) for a, b in zip(WIDTHS, WIDTHS[1:])]


def dropped_percent(offered, steps, aggregate, straggles):
    """Of the fast workers' gradients; nearly all that were used are theirs."""
    fast = sum(offered[:-1] if straggles else offered)
    return max(0.0, 100 * (fast - steps * aggregate) / fast)


class Shared:
    """What the processes of a measurement tell each other: it begins WARM_UP_S after all workers gave a gradient."""

    def __init__(self, context, workers, steps):
        self.steps = steps
        self.offered = context.Array("q", workers)
        self.chief_is_ready = context.Event()
        self.warm_at = context.Value("d", 0)
        self.first, self.end = (context.Array("d", 2 + workers) for _ in range(2))  # step, when it was seen, offered
        self.has_ended = context.Event()

    def saw(self, step):
        now = time.perf_counter()  # one clock for all processes of a host
        with self.first.get_lock():
            if self.warm_at.value == 0:
                if all(self.offered):
                    self.warm_at.value = now + WARM_UP_S
            elif self.first[0] == 0:
                if now >= self.warm_at.value:
                    self.first[:] = [step, now, *self.offered]
            elif step >= self.first[0] + self.steps and not self.has_ended.is_set():
                self.end[:] = [step, now, *self.offered]
                self.has_ended.set()

    def measured(self):
        """Steps, seconds, and what each worker offered meanwhile."""
        steps, seconds, *offered = (end - first for first, end in zip(self.first, self.end))
        return steps, seconds, offered


def serve(job, number, places, aggregate, sleep_s, shared):
    """A process: the server of the variables, or a worker."""
    cluster = tf.train.ClusterSpec({"ps": places[:1], "worker": places[1:]})
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=4)
    server = tf.train.Server(cluster, job_name=job, task_index=number, config=config)
    if job == "ps":
        server.join()
    where = tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{number}")
    with tf.Graph().as_default(), tf.device(where):
        step = tf.train.create_global_step()
        worker = Worker(number, draw_weights(), step, aggregate, len(places) - 1)
        hook = worker.optimizer.make_session_run_hook(is_chief=number == 0)
        if number > 0:  # who asks before the chief has made the variables looks again after 30 seconds
            shared.chief_is_ready.wait()
        with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=number == 0, hooks=[hook], config=config, log_step_count_steps=None
        ) as session:
            shared.chief_is_ready.set()
            while True:
                time.sleep(sleep_s)
                made = session.run([worker.train, step])[1]
                shared.offered[number] += 1
                shared.saw(int(made))


def measure_processes(workers, aggregate, straggles, steps):
    """Steps a second, and the share of the fast workers' gradients that were dropped, in per cent."""
    listening = [socket.create_server(("localhost", 0)) for _ in range(workers + 1)]
    places = [f"localhost:{each.getsockname()[1]}" for each in listening]
    for each in listening:
        each.close()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow.compat.v1"])  # each process for itself takes seconds to import it
    shared = Shared(context, workers, steps)
    start = lambda *arguments: context.Process(target=serve, args=(*arguments, shared), daemon=True)
    processes = [start("ps", 0, places, aggregate, 0)]
    for number in range(workers):
        sleeps = straggles and number == workers - 1
        processes.append(start("worker", number, places, aggregate, SLEEP_S if sleeps else 0))
    for each in processes:
        each.start()
    try:
        # Who waits for a token when the others have ended waits for ever; it is killed.
        while not shared.has_ended.wait(timeout=1):
            if any(not each.is_alive() for each in processes):
                raise RuntimeError("a process of TensorFlow's died")
        made, seconds, offered = shared.measured()  # who is killed may hold its locks
    finally:
        for each in processes:
            each.kill()
            each.join()
    return made / seconds, dropped_percent(offered, made, aggregate, straggles)


def measure_session(workers, aggregate, straggles, steps):
    """The same, in one session."""
    with tf.Graph().as_default():
        weights = draw_weights()
        step = tf.train.create_global_step()
        all_workers = [Worker(number, weights, step, aggregate, workers) for number in range(workers)]
        chief = all_workers[0].optimizer
        make_step = chief.get_chief_queue_runner().enqueue_ops[0]
        initial_tokens = chief.get_init_tokens_op()
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2 * workers)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for each in all_workers:
                session.run(each.optimizer.ready_for_local_init_op)
                session.run(each.optimizer.local_step_init_op)
            session.run(chief.chief_init_op)
            session.run(initial_tokens)
            ended, times = threading.Event(), {}

            # The end of the queue wakes who waits for a token.
            def coordinate():
                for number in range(1, WARM_UP + steps + 1):
                    session.run(make_step)
                    times[number] = time.perf_counter()
                ended.set()
                session.run(chief._sync_token_queue.close(cancel_pending_enqueues=True))

            def work(worker, sleep_s):
                try:
                    while not ended.is_set():
                        time.sleep(sleep_s)
                        session.run(worker.train)
                        worker.offered += 1
                except (tf.errors.OutOfRangeError, tf.errors.CancelledError):
                    if not ended.is_set():
                        raise

            threads = [threading.Thread(target=coordinate)]
            for number, worker in enumerate(all_workers):
                sleeps = straggles and number == workers - 1
                threads.append(threading.Thread(target=work, args=(worker, SLEEP_S if sleeps else 0)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        offered = [worker.offered for worker in all_workers]
        rate = steps / (times[WARM_UP + steps] - times[WARM_UP])
        return rate, dropped_percent(offered, WARM_UP + steps, aggregate, straggles)


def main():
    many, several, few = (10, 10, 2) if IS_SMOKE else (1000, 400, 25)
    say = lambda case, who, unit, value: print(
        json.dumps({"case": case, "contender": who, "unit": unit, "value": value}), flush=True
    )
    for who, measure, steps in (
        ("tensorflow", measure_processes, several),
        ("tensorflow, one session", measure_session, many),
    ):
        rate, dropped = measure(3, 2, True, steps)
        say("steps/s beside a straggler", who, "1/s", rate)
        say("dropped of the fast", who, "%", dropped)
        say("steps/s of two", who, "1/s", measure(2, 2, False, steps)[0])
    say("steps/s beside a straggler", "tensorflow, waiting", "1/s", measure_processes(3, 3, True, few)[0])
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
