"""The same training by Tandem's ranks, under `tandem launch`, and by torch.distributed's: for tests that compare them."""

import pathlib
import subprocess
import tempfile

import torch.multiprocessing as mp


def faults_over_ranks(tandem, rank_program, prepare, torch_rank, compare):
    """With 2 and 4 ranks: prepare(folder, ranks) writes what both begin with, both train in `folder`, and
    compare(folder, ranks) returns what is wrong. `torch_rank`: a function of a module, of (rank, ranks, folder)."""
    faults = []
    for ranks in (2, 4):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            prepare(folder, ranks)
            subprocess.run([tandem, "launch", "--ranks", str(ranks), "--", rank_program, name], check=True, timeout=120)
            mp.spawn(torch_rank, args=(ranks, folder), nprocs=ranks)
            faults += compare(folder, ranks)
    return faults
