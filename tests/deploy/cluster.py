"""A Slurm cluster for the length of a test: munged, slurmctld and a slurmd for each node, on hosts of the test's own.

    own_namespaces()
    with Cluster(["n1"]) as cluster:
        cluster.run("srun", "-n2", "hostname")

Needs what hosts.py needs, and Debian's slurm-wlm and munge (tools/bootstrap --deploy).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import hosts
from hosts import PATIENCE_S, Hosts, wait_until

PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "sinfo"]
CONTROLLER_PORT, NODE_PORT = 6817, 6818
CPUS = 4  # of each node, whatever the machine has
# Seconds. A job that was queued again starts when the credentials of its last start have expired.
EXPIRY = 5
# The plugins that need neither control groups nor a database. KillWait is Slurm's own default.
CONFIGURATION = """
ClusterName=tandem
SlurmctldHost={controller}
SlurmctldPort={CONTROLLER_PORT}
SlurmdPort={NODE_PORT}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire={EXPIRY}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=30
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """One node, or two that are hosts with a network between them."""

    def __init__(self, nodes: list[str]):
        self.nodes = nodes
        self._hosts = Hosts(nodes)
        self._daemons: list[subprocess.Popen] = []
        self._scratch = tempfile.TemporaryDirectory(prefix="tandem-slurm-")
        self.folder = Path(self._scratch.name)

    def __enter__(self) -> Cluster:
        self._hosts.__enter__()
        try:
            self._write_configuration()
            self._start_daemons()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        if self._daemons:  # slurmd does not end what it has started
            self.run("scancel", "--user", "root", "--signal=KILL", may_fail=True)
        hosts.end(self._daemons[::-1])
        self._hosts.__exit__()
        self._scratch.cleanup()

    def run(self, *command: str, may_fail: bool = False, patience: float = PATIENCE_S) -> subprocess.CompletedProcess:
        """What a user does on the first node, in the folder for runs."""
        done = subprocess.run([*self._hosts.enter(0), *command], cwd=self.runs, env=self.environment(), text=True,
                              capture_output=True, timeout=patience, check=False)
        if done.returncode != 0 and not may_fail:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def environment(self) -> dict[str, str]:
        return hosts.environment() | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def job(self, number: str) -> dict[str, str]:
        """What `scontrol show job` says."""
        said = self.run("scontrol", "--oneliner", "show", "job", number).stdout
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def logs(self) -> str:
        """What the daemons said, for a test that fails."""
        return "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in sorted((self.folder / "log").iterdir()))

    def _write_configuration(self) -> None:
        for name in ("runs", "log", "munge", "state", *(f"spool.{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)  # munged wants its socket to be within everybody's reach
        key = self.folder / "munge" / "key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        places = list(zip(self.nodes, self._hosts.addresses, strict=True))
        nodes = "\n".join(f"NodeName={node} NodeAddr={address} CPUs={CPUS} State=UNKNOWN" for node, address in places)
        controller = f"{self.nodes[0]}({self._hosts.addresses[0]})"
        words = {**globals(), "folder": self.folder, "controller": controller, "nodes": nodes}
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format_map(words))

    def _start(self, name: str, node: int, *command: str) -> None:
        with (self.folder / "log" / name).open("w") as log:
            self._daemons.append(subprocess.Popen([*self._hosts.enter(node), *command], env=self.environment(),
                                                  stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def _start_daemons(self) -> None:
        munge = self.folder / "munge"
        files = [f"--{kind}={munge / kind}" for kind in ("socket", "pid-file", "log-file", "seed-file")]
        self._start("munged", 0, "munged", "--foreground", f"--key-file={munge / 'key'}", *files)
        try:
            wait_until("munged listens", (munge / "socket").exists)
            self._start("slurmctld", 0, "slurmctld", "-D", "-c")
            wait_until("slurmctld answers", lambda: self.run("scontrol", "ping", may_fail=True).returncode == 0)
            for number, node in enumerate(self.nodes):
                self._start(f"slurmd.{node}", number, "slurmd", "-D", "-N", node)
            wait_until("all nodes are idle", self._all_idle)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.logs()}") from None

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
        return len(states) == len(self.nodes) and set(states) == {"idle"}
