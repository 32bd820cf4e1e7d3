#!/usr/bin/env python3
"""Trainings under a real Slurm: srun's ranks meet, and a job that is stopped, or queued again, ends in the bits of a
run that nobody disturbed. The batch script is the one that docs/signals.md shows.

    slurm_test.py TANDEM [OneNodeTest | TwoNodesTest]

Exits with 77, which counts as skipped, where no cluster can be started (cluster.py).
"""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from cluster import PROGRAMS, Cluster
from hosts import SKIPPED, lacking, own_namespaces, wait_until

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300
ENDLESS = 1_000_000_000
ROWS = 4096  # more steps than what a run has made when it is stopped
# The numbers of a run do not depend on where it would have ended.
CONSTANT = ["--set", "ppo.learning_rate_schedule=constant", "--set", "ppo.clip_range_schedule=constant"]
COMMON = ["--seed", "5", "--num-envs", "8", "--rollout-steps", "128", "--minibatches", "4", "--quiet", *CONSTANT]


def documented_job() -> str:
    page = (ROOT / "docs" / "signals.md").read_text()
    return re.search(r"```\n(#!/bin/bash\n#SBATCH.*?)```", page, re.DOTALL).group(1)


class Run:
    """A run folder, and the job that trains in it: each start of the job waits until it is told how far to train."""

    def __init__(self, cluster: Cluster, name: str, ranks: int):
        self.cluster, self.ranks = cluster, ranks
        self.home = cluster.runs / name
        self.folder = self.home / "runs" / "pole"
        self.home.mkdir()
        os.mkfifo(self.home / "steps")
        script = documented_job()
        command = f"--total-steps $(cat steps) --shards {ranks} {' '.join(COMMON)}"
        script, count = re.subn(rf"--total-steps {ENDLESS}", command, script)
        assert count == 1, script
        (self.home / "job.sh").write_text(script)
        self.number = ""

    def submit(self, *options: str) -> None:
        options = (f"--ntasks={self.ranks}", f"--ntasks-per-node={self.ranks // len(self.cluster.nodes)}",
                   f"--nodes={len(self.cluster.nodes)}", "--output=said", "--open-mode=append", *options)
        said = self.cluster.run("sbatch", "--parsable", f"--chdir={self.home}", *options, str(self.home / "job.sh"))
        self.number = said.stdout.strip()

    def start(self, *options: str) -> None:
        self.submit(*options)
        self.train_to(ENDLESS)

    def train_to(self, steps: int) -> None:
        def told() -> bool:
            try:
                pipe = os.open(self.home / "steps", os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False
            os.write(pipe, f"{steps}\n".encode())
            os.close(pipe)
            return True

        wait_until(f"job {self.number} has started: {self.job()}", told)

    def steps(self) -> int:
        """Made so far."""
        metrics = self.folder / "metrics.jsonl"
        lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        return json.loads(whole[-1])["env_steps"] if whole else 0

    def await_progress(self) -> None:
        before = self.steps()
        try:
            wait_until(f"the run goes on from {before} steps", lambda: self.steps() > before + ROWS)
        except AssertionError as late:
            raise AssertionError(f"{late}; it said {self.said()}") from None

    def job(self) -> dict[str, str]:
        return self.cluster.job(self.number)

    def await_state(self, state: str, restarts: int = 0, patience: float = LIMIT_S) -> None:
        def reached() -> bool:
            job = self.job()
            return job["JobState"] == state and int(job["Restarts"]) == restarts

        try:
            wait_until(f"job {self.number} is {state} after {restarts} restarts", reached, patience)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.job()}\n{self.said()}\n{self.cluster.logs()}") from None

    def said(self) -> str:
        file = self.home / "said"
        return file.read_text()[-3000:] if file.exists() else ""

    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    def summary(self) -> dict:
        return json.loads((self.folder / "summary.json").read_text())

    def finish(self, restarts: int) -> dict:
        """The summary of the run, which makes some more steps."""
        self.train_to(self.steps() + ROWS)
        self.await_state("COMPLETED", restarts)
        return self.summary()


class SlurmTest(unittest.TestCase):
    tandem = ""
    nodes: list[str] = []
    ranks = 2

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(cls.nodes))
        os.environ["PATH"] = f"{Path(cls.tandem).parent}:{os.environ['PATH']}"

    def run_of(self, name: str) -> Run:
        return Run(self.cluster, name, self.ranks)

    def expect_undisturbed_bits(self, summary: dict) -> None:
        """Those of a process of its own that makes as many steps at once."""
        folder = self.cluster.runs / "undisturbed"
        shutil.rmtree(folder, ignore_errors=True)
        command = [self.tandem, "train", "--algo", summary["algo"], "--env", "CartPole-v1", *COMMON]
        command += ["--run-dir", str(folder), "--shards", str(self.ranks), "--total-steps", str(summary["total_steps"])]
        command += ["--devices", f"cpu:{self.ranks}"] if summary["algo"] == "ppo" else []
        subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S, env=self.cluster.environment())
        alone = json.loads((folder / "summary.json").read_text())
        self.assertEqual(alone["env_steps"], summary["env_steps"])
        self.assertEqual(alone["state_sha256"], summary["state_sha256"])


class OneNodeTest(SlurmTest):
    nodes = ["n1"]

    def srun(self, *command: str) -> subprocess.CompletedProcess:
        return self.cluster.run("srun", "-n2", self.tandem, *command, patience=LIMIT_S)

    def test_ranks_of_srun_end_in_the_bits_of_one_process(self):
        for algo in ("ppo", "dd_ppo"):
            with self.subTest(algo):
                command = ["train", "--algo", algo, "--env", "CartPole-v1", "--shards", "2", *COMMON]
                said = self.srun(*command, "--total-steps", "8192", "--run-dir", algo).stderr
                self.assertEqual(said, "")
                summary = json.loads((self.cluster.runs / algo / "summary.json").read_text())
                self.assertEqual(summary["end"], "finished")
                self.expect_undisturbed_bits(summary)

    def test_a_job_is_queued_again_before_its_time_is_up(self):
        run = self.run_of("time")
        # Slurm looks at the times of jobs every half a minute: the signal comes 5 to 35 seconds after the start.
        run.start("--time=1", "--signal=USR1@25")
        run.await_progress()
        run.await_state("PENDING", restarts=1)
        self.assertIn("SIGUSR1", run.log())
        self.expect_undisturbed_bits(run.finish(restarts=1))
        self.assertEqual(run.summary()["resumed"], "exactly")

    def test_signals_and_requeues_of_others(self):
        run = self.run_of("requeue")
        run.start()
        run.await_progress()
        self.cluster.run("scancel", "--signal=USR1", run.number)
        run.await_state("PENDING", restarts=1)
        run.train_to(ENDLESS)
        run.await_progress()
        self.cluster.run("scontrol", "requeue", run.number)
        run.await_state("PENDING", restarts=2)
        self.assertIn("SIGTERM", run.log())
        self.expect_undisturbed_bits(run.finish(restarts=2))

    def test_scancel_leaves_a_checkpoint(self):
        run = self.run_of("scancel")
        run.start()
        run.await_progress()
        self.cluster.run("scancel", run.number)
        run.await_state("CANCELLED")
        wait_until("the ranks have ended", lambda: run.summary()["end"] != "running")
        self.assertEqual(run.summary()["end"], "stopped")
        steps = run.summary()["env_steps"]
        self.assertEqual(run.steps(), steps)
        run.start()
        run.await_progress()
        self.cluster.run("scancel", "--signal=USR2", run.number)
        run.await_state("FAILED")  # by its exit code, which says that it was stopped
        self.assertEqual(run.job()["ExitCode"], "130:0")
        run.submit()
        self.expect_undisturbed_bits(run.finish(restarts=0))

    def test_a_rank_that_is_killed_ends_the_run_or_not(self):
        for survivors, end in (("take_over", "finished"), ("end", "failed")):
            with self.subTest(survivors):
                run = self.run_of(survivors)
                job = (run.home / "job.sh").read_text().replace("srun", "export SLURM_KILL_BAD_EXIT=0\nsrun")
                (run.home / "job.sh").write_text(job.replace("dd_ppo", f"dd_ppo --survivors {survivors}"))
                run.submit()
                run.train_to(200_000)
                run.await_progress()
                os.kill(self.process_of(run, rank=1), signal.SIGKILL)
                run.await_state("FAILED")
                self.assertEqual(run.job()["ExitCode"], "137:0")  # of the killed rank, whatever the others did
                self.assertEqual(run.summary()["end"], end)
                if end == "finished":
                    self.expect_undisturbed_bits(run.summary())

    def process_of(self, run: Run, rank: int) -> int:
        """The process that is the rank."""
        wanted = {f"SLURM_JOB_ID={run.number}", f"SLURM_PROCID={rank}"}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = set((process / "environ").read_text().split("\0"))
                if wanted <= environment and (process / "comm").read_text() == "tandem\n":
                    return int(process.name)
            except OSError:
                continue
        raise AssertionError(f"no process is rank {rank} of job {run.number}")


class TwoNodesTest(SlurmTest):
    nodes = ["n1", "n2"]
    ranks = 4

    def test_ranks_of_two_nodes_need_a_secret(self):
        command = ["train", "--env", "CartPole-v1", "--total-steps", "4096", "--run-dir", "none", "--quiet"]
        done = self.cluster.run("srun", "-N2", "-n2", self.tandem, *command, may_fail=True)
        self.assertIn("ranks on several hosts need a run secret", done.stderr)
        self.assertRegex(done.stderr, r"tasks? 0[-,]1: Exited with exit code 2")

    def test_a_job_on_two_nodes_is_queued_again(self):
        run = self.run_of("requeue")
        run.start()
        run.await_progress()
        self.assertEqual((run.home / "secret").stat().st_mode & 0o777, 0o600)
        self.cluster.run("scancel", "--signal=USR1", run.number)
        run.await_state("PENDING", restarts=1)
        self.assertIn("SIGUSR1", run.log())
        self.expect_undisturbed_bits(run.finish(restarts=1))


if __name__ == "__main__":
    reason = lacking(PROGRAMS)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    own_namespaces()
    SlurmTest.tandem = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
