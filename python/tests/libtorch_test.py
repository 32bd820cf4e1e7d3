"""One LibTorch in a process, whatever is imported first."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

import tandem
from tandem import _libtorch
from tandem._load import core

LIBRARIES = """
paths = {line.split()[-1] for line in open("/proc/self/maps") if "/libtorch_cpu" in line or "/libc10.so" in line}
assert len(paths) == 2, paths
"""


def test_the_extension_loads_one_libtorch():
    done = subprocess.run([sys.executable, "-c", "import tandem._load; tandem._load.core()" + LIBRARIES], timeout=60)
    assert done.returncode == 0


def test_the_package_alone_loads_nothing():
    program = "import tandem, sys; assert 'tandem._core' not in sys.modules and 'gymnasium' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def package(folder, version):
    (folder / "torch" / "lib").mkdir(parents=True)
    (folder / "torch" / "lib" / "libtorch_cpu.so").touch()
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")


def test_a_torch_of_another_version_is_refused_by_name(tmp_path, monkeypatch):
    package(tmp_path, "1.13.1+cpu")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"is torch 1\.13\.1\+cpu; install torch "):
        _libtorch.load()


def test_without_any_torch_the_command_that_installs_it_is_said(monkeypatch):
    monkeypatch.setattr(_libtorch, "folder_of_package", lambda: None)
    monkeypatch.setattr(_libtorch._build_facts, "LIBTORCH", "")
    with pytest.raises(ImportError, match="-m pip install torch=="):
        _libtorch.load()


def test_torch_has_as_many_threads_after_a_training_as_before(small):
    core()
    (path,) = {line.split()[-1] for line in open("/proc/self/maps") if "/libtorch_cpu.so" in line}
    torch = ctypes.CDLL(path)  # torch.set_num_threads() and torch.get_num_threads()
    torch._ZN2at15set_num_threadsEi(3)
    tandem.train(**small)
    assert torch._ZN2at15get_num_threadsEv() == 3


def test_the_library_for_cuda_is_looked_for_beside_libtorch(small):
    core()
    (path,) = {line.split()[-1] for line in open("/proc/self/maps") if "/libtorch_cpu.so" in line}
    if not Path(path).with_name("libtorch_cuda.so").exists():
        pytest.skip("this LibTorch has no CUDA part")
    try:
        tandem.train(**{**small, "devices": "cuda:0"})
    except tandem.ConfigError as error:  # no device, or libraries of CUDA's own that are not there
        assert "libtorch_cuda.so: cannot open" not in str(error)
