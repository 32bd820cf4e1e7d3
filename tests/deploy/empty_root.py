"""An empty Debian 12 in a folder, in which the lines of deploy/Containerfile are carried out as podman or docker would.

Needs root, mount namespaces (hosts.own_namespaces()) and debootstrap, which tools/bootstrap --deploy installs. The
empty Debian is kept in a file, for the next call. Packages come from where this machine has them from, if it is a
Debian 12.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

SUITE = "bookworm"
ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
IGNORED = ROOT / ".containerignore"
PREFIX = "/opt/tandem"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How this machine reaches the network, which no image needs to know.
NETWORK = re.compile(r"PIP_|https?_proxy$|no_proxy$", re.IGNORECASE)
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
OUR_CERTIFICATES = "/etc/ssl/of-this-machine.crt"


def is_debian_12() -> bool:
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME") == SUITE
    except OSError:
        return False


def mirror() -> str:
    if not is_debian_12():
        return "http://deb.debian.org/debian"
    command = ["apt-get", "indextargets", "--format", "$(SITE)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0].rstrip("/")


def make_base(archive: Path) -> None:
    if archive.exists():
        return
    folder = archive.with_suffix(".new")
    shutil.rmtree(folder, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(folder), mirror()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["tar", "-C", folder, "-cf", f"{folder}.tar", "."], check=True)
    os.replace(f"{folder}.tar", archive)
    shutil.rmtree(folder)


def instructions() -> list[tuple[str, str]]:
    """Of the Containerfile, in order: ("RUN", "make install ...")."""
    lines = [line for line in CONTAINERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.strip().split(None, 1)) for line in joined.splitlines() if line.strip()]


class Stage:
    """One FROM ... of the Containerfile: a root that grows, and what the image says besides."""

    def __init__(self, folder: Path, base: Path):
        self.root, self.folder, self.user = folder, "/", "0:0"
        self.environment, self.entry_point, self.command = {"PATH": PATH}, [], []
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-C", folder, "-xf", base], check=True)
        for name in ("proc", "sys", "dev"):
            subprocess.run(["mount", "--rbind", f"/{name}", folder / name], check=True)
        self._reach_network()

    def apply(self, word: str, text: str, stages: dict[str, Stage | Installed]) -> None:
        if word == "RUN":
            self.run(["sh", "-c", text])
        elif word == "COPY":
            self._copy(text.split(), stages)
        elif word == "ENV":
            name, value = text.split("=", 1)
            self.environment[name] = value
        elif word == "WORKDIR":
            self.folder = text
            self.at(text).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            self.user = text
        elif word in ("ENTRYPOINT", "CMD"):
            setattr(self, "entry_point" if word == "ENTRYPOINT" else "command", json.loads(text))
        else:
            raise AssertionError(f"this test does not know {word} of {CONTAINERFILE}")

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def enter(self) -> list[str]:
        """What a command begins with that runs in the image, as its user, without privileges."""
        user, group = self.user.split(":")
        without = [] if user == "0" else ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return ["chroot", str(self.root), "setpriv", "--reuid", user, "--regid", group, "--clear-groups", *without,
                "env", "--ignore-environment", f"--chdir={self.folder}", *variables]

    def run(self, command: list[str]) -> None:
        reach = [f"{name}={value}" for name, value in os.environ.items() if NETWORK.match(name)]
        reach += [f"{name}={OUR_CERTIFICATES}" for name in ("PIP_CERT", "SSL_CERT_FILE") if self._has_certificates()]
        subprocess.run([*self.enter(), *reach, "DEBIAN_FRONTEND=noninteractive", "HOME=/root", *command], check=True)

    def _copy(self, words: list[str], stages: dict[str, Stage | Installed]) -> None:
        *options, source, to = words
        goal = self.at(to)
        if options:
            (stage,) = (re.fullmatch("--from=(.*)", option).group(1) for option in options)
            shutil.copytree(stages[stage].at(source), goal, symlinks=True)
            return
        goal.mkdir(parents=True)
        ignored = [line for line in IGNORED.read_text().splitlines() if line and not line.startswith("#")]
        kept_out = [f"--exclude={line[3:]}" if line.startswith("**/") else f"--exclude=./{line}" for line in ignored]
        pack = subprocess.Popen(["tar", "-C", ROOT / source, *kept_out, "-cf", "-", "."], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-C", goal, "--no-same-owner", "-xf", "-"], stdin=pack.stdout, check=True)
        if pack.wait() != 0:
            raise AssertionError("tar failed")

    def _has_certificates(self) -> bool:
        return self.at(OUR_CERTIFICATES).exists()

    def _reach_network(self) -> None:
        copies = {file: file for file in ("/etc/resolv.conf", "/etc/pip.conf")} | {CERTIFICATES: OUR_CERTIFICATES}
        for file, to in copies.items():
            if Path(file).exists():
                shutil.copy(file, self.at(to))
        if not is_debian_12():
            return
        shutil.rmtree(self.at("/etc/apt"))
        shutil.copytree("/etc/apt", self.at("/etc/apt"), symlinks=True)


class Installed:
    """In the place of the stages before the last one: what `make install` has installed elsewhere."""

    def __init__(self, prefix: Path):
        self._prefix = prefix

    def at(self, path: str) -> Path:
        return self._prefix / Path(path).relative_to(PREFIX)


def build(scratch: Path, base: Path, prefix: Path | None) -> dict[str, Stage | Installed]:
    """The stages by their names; the last one has none. With a prefix, into which `make install` has installed, those
    before it are not made."""
    stages: dict[str, Stage | Installed] = {}
    last = [word for word, _ in instructions()].count("FROM") - 1
    number = -1
    for word, text in instructions():
        if word == "FROM":
            number += 1
            image, *name = text.split(" AS ")
            if image != "docker.io/library/debian:12-slim":
                raise AssertionError(f"{image}: this test has a Debian 12 only")
            is_elsewhere = prefix and number != last
            stages["".join(name)] = Installed(prefix) if is_elsewhere else Stage(scratch / f"stage{number}", base)
        elif not prefix or number == last:
            print(f"{word} {text}", flush=True)
            list(stages.values())[-1].apply(word, text, stages)
    return stages
