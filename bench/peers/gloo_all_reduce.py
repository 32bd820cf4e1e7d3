"""Times all-reduces of torch.distributed over Gloo between two processes: the cases of bench/comm/all_reduce_bench.cc.
Prints a line of JSON a case.

python gloo_all_reduce.py [--smoke]
"""

import json
import statistics
import sys
import time

import gloo_ranks
import torch
import torch.distributed as dist

KIB, MIB = 1024, 1024 * 1024
SIZES = [(8, "8 bytes", 1000), (4 * KIB, "4 KiB", 1000), (64 * KIB, "64 KiB", 500), (MIB, "1 MiB", 200),
         (4 * MIB, "4 MiB", 60), (40 * MIB, "40 MiB", 12)]
SMOKE = [(KIB, "1 KiB", 5)]


def work(rank, sizes):
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
            line = {"case": f"{gloo_ranks.RANKS} ranks x {text}", "contender": "gloo",
                    "value": 1e6 * statistics.median(seconds), "unit": "us", "samples": repeats}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    gloo_ranks.run(work, SMOKE if "--smoke" in sys.argv else SIZES)
