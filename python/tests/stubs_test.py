"""The typed signatures are those of the option list."""

import ast
import inspect
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
