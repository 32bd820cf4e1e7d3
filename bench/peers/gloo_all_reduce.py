"""Times all-reduces of torch.distributed over Gloo between processes: the cases of bench/comm/all_reduce_bench.cc.
Prints a line of JSON a case.

python gloo_all_reduce.py [--smoke]
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

import gloo_ranks
import torch
import torch.distributed as dist

KIB, MIB = 1024, 1024 * 1024
SIZES = [(8, "8 bytes", 1000), (4 * KIB, "4 KiB", 1000), (64 * KIB, "64 KiB", 500), (MIB, "1 MiB", 200),
         (4 * MIB, "4 MiB", 60), (40 * MIB, "40 MiB", 12)]
SMALL = [(size, text, 200) for size, text, _ in SIZES[:3]]
SMOKE = [(KIB, "1 KiB", 5)]


def work(rank, name, sizes):
    for size, text, repeats in sizes:
        vector = torch.zeros(size // 4)
        seconds = []
        for repeat in range(-3, repeats):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(vector)
            if repeat >= 0:
                seconds.append(time.perf_counter() - start)
        if rank == 0:
            line = {"case": f"{name} x {text}", "contender": "gloo",
                    "value": 1e6 * statistics.median(seconds), "unit": "us", "samples": repeats}
            print(json.dumps(line), flush=True)


@contextlib.contextmanager
def busy_process():
    """As bench/comm/busy_process.h: computes with nice 10 on one core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.nice(10))
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    is_smoke = "--smoke" in sys.argv
    gloo_ranks.run(work, "2 ranks", SMOKE if is_smoke else SIZES)
    gloo_ranks.run(work, "4 ranks", SMOKE if is_smoke else SMALL, ranks=4)
    with busy_process():
        gloo_ranks.run(work, "2 ranks in company", SMOKE if is_smoke else SMALL)
