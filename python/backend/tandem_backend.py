"""The build backend: scikit-build-core's, which is told where LibTorch lies.

A build of pip's is isolated: it does not see the packages of the environment that it is for. The extension must be
built for the torch of just that environment, so this looks for it there, on the disk. LIBTORCH=DIR names another one;
without either it is that of tools/bootstrap in this checkout. Where there is none at all, the newest torch is fetched
for the build, as pip will do for the installation.
"""

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]


def holds_libtorch(folder: Path) -> bool:
    return (folder / "lib" / "libtorch_cpu.so").exists()


def installed_torch() -> "Path | None":
    """That of the environment that the wheel is for, or of the build's own."""
    places = [sysconfig.get_path(name) for name in ("platlib", "purelib")] + sys.path
    return next((Path(place) / "torch" for place in places if holds_libtorch(Path(place) / "torch")), None)


def checkouts_torch() -> "Path | None":
    return next(filter(holds_libtorch, ROOT.glob(".venv/libtorch/lib/python3*/site-packages/torch")), None)


def libtorch() -> "tuple[Path | None, bool]":
    """Where it lies, and whether the package may use it there without having the package torch."""
    if os.environ.get("LIBTORCH"):
        return Path(os.environ["LIBTORCH"]), True
    package = installed_torch()
    return (package, False) if package else (checkouts_torch(), True)


def with_libtorch(settings: "dict[str, Any] | None") -> dict[str, Any]:
    folder, is_kept = libtorch()
    settings = dict(settings or {})
    if folder is not None:
        settings.setdefault("cmake.define.LIBTORCH", str(folder))
    if is_kept:
        settings.setdefault("cmake.define.TANDEM_PYTHON_KEEPS_LIBTORCH", "ON")
    return settings


def get_requires_for_build_wheel(config_settings: "dict[str, Any] | None" = None) -> list[str]:
    requires = list(_build.get_requires_for_build_wheel(config_settings))
    return requires if libtorch()[0] else [*requires, "torch>=2.11"]


def prepare_metadata_for_build_wheel(directory: str, config_settings: "dict[str, Any] | None" = None) -> str:
    return _build.prepare_metadata_for_build_wheel(directory, config_settings)


def build_wheel(directory: str, config_settings: "dict[str, Any] | None" = None, metadata: "str | None" = None) -> str:
    return _build.build_wheel(directory, with_libtorch(config_settings), metadata)
