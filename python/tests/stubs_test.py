"""The typed signatures are those of the option list."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import tandem
from tandem._load import core

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import generate_stubs


def stubs():
    return generate_stubs.FILE.read_text()


def test_the_file_is_what_the_option_list_makes():
    made = generate_stubs.text_of(core().option_list(), core().option_families())
    assert stubs() == made, "run python/generate_stubs.py"


def functions():
    return {node.name: node for node in ast.parse(stubs()).body if isinstance(node, ast.FunctionDef)}


def test_train_takes_every_option():
    its = {argument.arg for argument in functions()["train"].args.args + functions()["train"].args.kwonlyargs}
    assert its >= {option["key"].split(".")[0] for option in core().option_list()}


def test_the_named_parameters_are_those_of_the_functions():
    for name in ("train", "resume"):
        arguments = functions()[name].args
        listed = {argument.arg for argument in arguments.args + arguments.kwonlyargs}
        parameters = inspect.signature(getattr(tandem, name)).parameters.values()
        assert listed >= {one.name for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD}


def faults_of(program, tmp_path):
    """What mypy finds, a line and a code each. The package is checked as well."""
    file = tmp_path / "program.py"
    file.write_text(program)
    place = Path(tandem.__file__).parents[1]  # an installed package mypy finds by itself
    variables = {**os.environ, **({} if place.name == "site-packages" else {"MYPYPATH": str(place)})}
    variables.pop("PYTHONPATH", None)  # mypy reports nothing of packages that it finds there
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, env=variables, cwd=tmp_path, timeout=240)
    assert not done.stderr, done.stderr
    return re.findall(r"program\.py:(\d+): error: .*\[(.+)\]|(.*: error: .*)", done.stdout)


RIGHT = """import tandem
from typing import Any

def watch(update: tandem.Update) -> bool:
    update.change(ppo={"entropy_coef": 0.1})
    return bool(update["env_steps"] < 1000)

run = tandem.train(env="CartPole-v1", algo="ppo", total_steps=1000, ppo={"gamma": 0.9, "minibatch_size": None},
                   eval={"every_steps": 5}, env_options={"length": 6}, policy={"hidden": [64]}, on_update=watch)
tandem.train("CartPole-v1", on_update=print, on_episode=print, on_checkpoint=print)
tandem.resume(run, total_steps=2000)
returns: float = tandem.evaluate(tandem.load(run), episodes=2).mean
"""
WRONG = """import tandem
tandem.train(env="CartPole-v1", ppo={"gama": 0.9})
tandem.train(env="CartPole-v1", total_step=3)
tandem.train(env="CartPole-v1", algo="pppo")
tandem.train(env="CartPole-v1", total_steps="many")
tandem.resume("run", env="CartPole-v1")
tandem.train(on_update=lambda update: update.chance())
tandem.load("run").predict()
"""


def test_a_checker_of_types_accepts_what_is_right(tmp_path):
    assert faults_of(RIGHT, tmp_path) == []


def test_a_checker_of_types_finds_what_is_wrong(tmp_path):
    found = [(line, code) for line, code, other in faults_of(WRONG, tmp_path)]
    codes = ("typeddict-unknown-key", "call-arg", "arg-type", "arg-type", "call-arg", "attr-defined", "call-arg")
    assert found == [(str(number), code) for number, code in enumerate(codes, 2)]
