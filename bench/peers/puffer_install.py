"""Builds PufferLib's trainer and its CartPole into the environment whose Python runs this.

PufferLib 3.0.0 is on the index as source only, and its setup.py fetches libraries of other environments from elsewhere.
NO_OCEAN=1 keeps it from that, but then it trips over a name that it defines only without; the name is given to it here.
The two parts in C and C++ that are needed are compiled here.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

import numpy
from torch.utils import cpp_extension

PUFFERLIB = "pufferlib==3.0.0"
RAYLIB = "raylib-5.5_linux_amd64"  # within the source; CartPole's header names it, for drawing


def pip(word, *arguments, variables):
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", *arguments]
    subprocess.run([sys.executable, "-m", "pip", word, *options], env=variables, check=True)


def compile_cartpole(source, package):
    folder = package / "ocean" / "cartpole"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    includes = [sysconfig.get_paths()["include"], numpy.get_include(), source / RAYLIB / "include"]
    command = ["cc", "-O2", "-flto", "-fwrapv", "-shared", "-fPIC", "-DPLATFORM_DESKTOP",
               "-DNPY_NO_DEPRECATED_API=NPY_1_7_API_VERSION", "-Wno-implicit-function-declaration"]
    command += [f"-I{include}" for include in includes]
    command += [source / "pufferlib" / "ocean" / "cartpole" / "binding.c", "-o", folder / f"binding{suffix}"]
    command += [source / RAYLIB / "lib" / "libraylib.a", "-lm", "-lpthread", "-ldl"]
    subprocess.run(command, check=True)


def compile_advantage(source, package):
    """The kernel that the trainer computes advantages with; its Python side expects it as pufferlib._C."""
    built = cpp_extension.load(
        "_C",
        [str(source / "pufferlib" / "extensions" / "pufferlib.cpp")],
        extra_cflags=["-O3"],
        build_directory=str(source),
        is_python_module=False,
        with_cuda=False,
    )
    del built
    target = package / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    target.write_bytes((source / "_C.so").read_bytes())


def main():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        (scratch / "sitecustomize.py").write_text("import builtins\nbuiltins.c_extension_paths = []\n")
        variables = os.environ | {"NO_OCEAN": "1", "NO_TRAIN": "1", "PYTHONPATH": str(scratch)}
        pip("download", "--no-binary", ":all:", "--dest", str(scratch), PUFFERLIB, variables=variables)
        with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
            archive.extractall(scratch, filter="data")
        source = next(path for path in scratch.glob("pufferlib-*") if path.is_dir())
        pip("install", str(source), variables=variables)
        package = Path(sysconfig.get_paths()["purelib"]) / "pufferlib"
        compile_cartpole(source, package)
        compile_advantage(source, package)


if __name__ == "__main__":
    main()
