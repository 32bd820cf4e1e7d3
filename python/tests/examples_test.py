"""Every program of examples/python runs to its end."""

import runpy
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).resolve().parents[2] / "examples" / "python").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_it_runs(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # its runs go there
    runpy.run_path(str(program), run_name="__main__")
