"""Loads LibTorch before the extension, so that a process has one: that of the package torch, where there is one.

The extension names libc10.so and libtorch_cpu.so, and no folder. The loader takes what is loaded already under these
names, so it does not matter whether torch is imported before tandem, after it, or never.
"""

import ctypes
import importlib.util
import os
import re
import sys
from pathlib import Path

from tandem import _build_facts


def folder_of_package() -> "Path | None":
    """The package torch, which is not imported for it."""
    module = sys.modules.get("torch")
    if module is not None and module.__file__:
        return Path(module.__file__).parent
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places and (Path(places[0]) / "lib" / "libtorch_cpu.so").exists() else None


def version_of(package: Path) -> str:
    try:
        text = (package / "version.py").read_text()
    except OSError:
        return "unknown"
    found = re.search(r"__version__ = ['\"]([^'\"]+)['\"]", text)
    return found.group(1) if found else "unknown"


def require_same_version(package: Path) -> None:
    """LibTorch's interface for C++ changes from one minor version to the next."""
    built, found = _build_facts.TORCH_VERSION, version_of(package)
    if found.split("+")[0].split(".")[:2] != built.split(".")[:2]:
        raise ImportError(
            f"tandem was built for torch {built}, and {package} is torch {found}; install torch {built}, or build "
            "tandem again for this one: pip install --force-reinstall --no-cache-dir --no-deps tandem-rl"
        )


def load() -> None:
    package = folder_of_package()
    if package is not None:
        require_same_version(package)
    elif _build_facts.LIBTORCH and os.path.isdir(_build_facts.LIBTORCH):
        package = Path(_build_facts.LIBTORCH)
    else:
        raise ImportError(
            f"tandem needs the package torch {_build_facts.TORCH_VERSION}, which {sys.executable} does not have: "
            f"{sys.executable} -m pip install torch=={_build_facts.TORCH_VERSION}"
        )
    for library in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(package / "lib" / library))
