"""The same training by Tandem's ranks, under `tandem launch`, and by torch.distributed's: for tests that compare
them."""

import gc
import pathlib
import subprocess
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def in_process_group(rank, ranks, folder, rendezvous, train):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    train(rank, folder)
    gc.collect()  # what holds the group goes before it
    dist.barrier()
    dist.destroy_process_group()


def train_with_references(ranks, folder, train):
    """torch's own processes, none of which holds a line of Tandem, were seen to die in malloc's checks once in a
    hundred starts; what they should have written is then made again, and said. Anything but a signal is a fault of this
    test."""
    for attempt in range(3):
        rendezvous = folder / f"rendezvous.{attempt}"
        try:
            mp.spawn(in_process_group, args=(ranks, folder, rendezvous, train), nprocs=ranks)
            return
        except mp.ProcessExitedException as error:
            if error.signal_name is None or attempt == 2:
                raise
            print(f"{ranks} ranks of torch itself: rank {error.error_index} died of {error.signal_name}; "
                  "they train again")


def faults_over_ranks(tandem, rank_program, prepare, train_with_torch, compare):
    """With 2 and 4 ranks: prepare(folder, ranks) writes what both begin with, both train in `folder`, and
    compare(folder, ranks) returns what is wrong. `train_with_torch`: a function of a module, of (rank, folder), called
    on each rank with a process group."""
    faults = []
    for ranks in (2, 4):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            prepare(folder, ranks)
            subprocess.run([tandem, "launch", "--ranks", str(ranks), "--", rank_program, name], check=True, timeout=120)
            train_with_references(ranks, folder, train_with_torch)
            faults += compare(folder, ranks)
    return faults
