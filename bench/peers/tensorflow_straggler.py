#!/usr/bin/env python3
"""What bench/sync/straggler_bench.cc measures, with TensorFlow's SyncReplicasOptimizer, in two ways.

tensorflow: as its documentation says, each worker with a graph, a session and a server of its own, variables on one
more server; all of them in one process, so that no network is measured.
tensorflow, one session: workers are threads that share a graph and a session, so that its servers and their messages
are not measured either.

usage: tensorflow_straggler.py [--smoke]
"""

import json
import os
import socket
import sys
import threading
import time

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np
import tensorflow.compat.v1 as tf

WIDTHS, ROWS, WARM_UP, SLEEP_S = (64, 256, 256, 44), 32, 10, 0.2


def net(x, weights):
    for w, b in weights:
        x = tf.tanh(tf.matmul(x, w) + b)
    return tf.reduce_mean(tf.square(x))


class Worker:
    def __init__(self, number, weights, step, aggregate, workers):
        rows = np.sin(np.arange(ROWS * WIDTHS[0], dtype=np.float32).reshape(ROWS, WIDTHS[0]) + number)
        self.optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.01), aggregate, workers)
        self.train = self.optimizer.minimize(net(tf.constant(rows), weights), global_step=step)
        self.offered = 0


def draw_weights():
    rng = np.random.default_rng(3)
    draw = lambda *shape: tf.Variable((rng.uniform(-1, 1, shape) / np.sqrt(shape[0])).astype(np.float32))
    return [(draw(a, b), draw(b)) for a, b in zip(WIDTHS, WIDTHS[1:])]


def measure_servers(workers, aggregate, straggles, steps):
    """Steps a second, and the share of the fast workers' gradients that were dropped, in per cent."""
    listening = [socket.create_server(("localhost", 0)) for _ in range(workers + 1)]
    places = [f"localhost:{each.getsockname()[1]}" for each in listening]
    for each in listening:
        each.close()
    cluster = tf.train.ClusterSpec({"ps": places[:1], "worker": places[1:]})
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    tf.train.Server(cluster, job_name="ps", task_index=0, config=config)
    last, times, offered, failures = WARM_UP + steps, {}, [0] * workers, []

    def work(number, sleep_s):
        server = tf.train.Server(cluster, job_name="worker", task_index=number, config=config)
        where = tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{number}")
        with tf.Graph().as_default(), tf.device(where):
            step = tf.train.create_global_step()
            worker = Worker(number, draw_weights(), step, aggregate, workers)
            hook = worker.optimizer.make_session_run_hook(is_chief=number == 0)
            with tf.train.MonitoredTrainingSession(
                master=server.target, is_chief=number == 0, hooks=[hook], config=config, log_step_count_steps=None
            ) as session:
                while True:
                    time.sleep(sleep_s)
                    made = session.run([worker.train, step])[1]
                    offered[number] += 1
                    times.setdefault(min(made, last), time.perf_counter())
                    if made >= last:
                        return

    def work_or_tell(number, sleep_s):
        try:
            work(number, sleep_s)
        except Exception as error:
            if last not in times:
                failures.append(error)

    threads = []
    for number in range(workers):
        sleeps = straggles and number == workers - 1
        threads.append(threading.Thread(target=work_or_tell, args=(number, SLEEP_S if sleeps else 0), daemon=True))
        threads[-1].start()
    # Who waits for a token when the others have ended waits for ever; the process ends without it.
    while last not in times and not failures:
        time.sleep(0.01)
    if failures:
        raise failures[0]
    first = min(made for made in times if made >= WARM_UP)
    fast = sum(offered[: workers - 1] if straggles else offered)
    rate = (last - first) / (times[last] - times[first])
    return rate, max(0.0, 100 * (fast - last * aggregate) / fast)


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
        fast = all_workers[: workers - 1] if straggles else all_workers
        offered = sum(worker.offered for worker in fast)
        used = (WARM_UP + steps) * aggregate  # nearly all of them by the fast, where one straggles
        rate = steps / (times[WARM_UP + steps] - times[WARM_UP])
        return rate, max(0.0, 100 * (offered - used) / offered)


def main():
    smoke = "--smoke" in sys.argv[1:]
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    steps = 10 if smoke else 3000
    say = lambda case, who, unit, value: print(
        json.dumps({"case": case, "contender": who, "unit": unit, "value": value})
    )
    for who, measure in (("tensorflow, one session", measure_session), ("tensorflow", measure_servers)):
        rate, dropped = measure(3, 2, True, steps)
        say("steps/s beside a straggler", who, "1/s", rate)
        say("dropped of the fast", who, "%", dropped)
        say("steps/s of two", who, "1/s", measure(2, 2, False, steps)[0])
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
