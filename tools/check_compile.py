"""The checks that run a compiler's front end: lock annotations, headers that stand alone, clang-tidy.

Each takes the compile commands of build/check, a build folder of clang++ that is configured and never built.
"""

import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from check_layers import layer_of, read_layers

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "check"
JOBS = int(os.environ.get("JOBS") or os.cpu_count() or 1)
# The last two are built where CUDA is.
BUILT_ELSEWHERE = ("fuzz/", "tests/package/", "tandem/comm/nccl/", "tandem/device/cuda/")
INCLUDE = re.compile(r'^\s*#\s*include\s*"(tandem/[^"]+)"', re.MULTILINE)


def configure() -> dict[str, list[str]]:
    """The arguments with which each source file (path from the root) is compiled, less its input and output."""
    command = ["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++",
               "-DCMAKE_BUILD_TYPE=Debug", "-DTANDEM_PCH=OFF", "-DTANDEM_UNITY=OFF", "-DTANDEM_CHECK=ON"]
    if os.environ.get("LIBTORCH"):
        command.append("-DLIBTORCH=" + os.environ["LIBTORCH"])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    commands = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build"):
            words = shlex.split(entry["command"])
            words = words[next(i for i, word in enumerate(words) if word.endswith("clang++")):]  # less a compiler cache
            output = words.index("-o")
            words = words[:output] + words[output + 2:]
            commands[str(path.relative_to(ROOT))] = [word for word in words if word not in ("-c", entry["file"])]
    return commands


def run_all(jobs: list[tuple[str, list[str]]]) -> list[str]:
    """Runs (name, command) in parallel; what those print that fail, in the order given."""
    def run(job: tuple[str, list[str]]) -> str:
        name, command = job
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return "" if done.returncode == 0 else f"{name}: {(done.stdout + done.stderr).strip()}"

    with ThreadPoolExecutor(JOBS) as pool:
        return [text for text in pool.map(run, jobs) if text]


def torch_free(path: str, layers: dict) -> bool:
    layer = layer_of(path, layers)
    return layer is not None and not layer.torch


def check_locks(commands: dict[str, list[str]], chosen: list[str]) -> tuple[int, list[str]]:
    """Clang's thread safety analysis, and its other warnings, of layers without torch. Builds by clang, such as asan's,
    have the analysis for all sources of these layers."""
    layers, _ = read_layers(ROOT)
    sources = [path for path in chosen if path in commands and torch_free(path, layers)]
    flags = ["-fsyntax-only", "-Wthread-safety", "-Werror"]
    return len(sources), run_all([(path, commands[path] + flags + [path]) for path in sources])


def header_arguments(header: str, commands: dict[str, list[str]]) -> list[str]:
    """How a source beside the header is compiled; without one, how any source of its layer or a lower one is."""
    layers, _ = read_layers(ROOT)
    layer = layer_of(header, layers)
    beside = [path for path in commands if Path(path).parent == Path(header).parent]
    fitting = beside or [path for path in commands if layer is None or layer_of(path, layers) is layer]
    if not fitting:
        fitting = [path for path in commands if (other := layer_of(path, layers)) and other.torch == layer.torch]
    tests = [path for path in fitting if path.endswith("_test.cc")]
    return commands[(tests or fitting)[0]]


def check_headers(commands: dict[str, list[str]], headers: list[str]) -> tuple[int, list[str]]:
    """Each header compiles when it is the first thing that a file includes."""
    alone = ["-fsyntax-only", "-Wno-unused-function", "-x", "c++", "-include"]
    return len(headers), run_all([(header, header_arguments(header, commands) + alone + [header, "/dev/null"])
                                  for header in headers])


def includers(header: str, paths: list[str]) -> list[str]:
    return [path for path in paths if header in INCLUDE.findall((ROOT / path).read_text())]


def check_tidy(commands: dict[str, list[str]], sources: list[str]) -> tuple[int, list[str]]:
    """clang-tidy with .clang-tidy, whose warnings are errors. It reports on the project's headers too."""
    tidy = str(ROOT / ".venv" / "check" / "bin" / "clang-tidy")
    known = [path for path in sources if path in commands]
    faults = [f"{path}: has no compile command in {BUILD.relative_to(ROOT)}, so it cannot be checked"
              for path in sources if path not in commands and not path.startswith(BUILT_ELSEWHERE)]
    return len(known), faults + run_all([(path, [tidy, "--quiet", "-p", str(BUILD), path]) for path in known])
