#!/usr/bin/env python3
"""Fails on an include that the architecture does not allow.

The layers and their arrows are the tandem_layer(...) declarations of the CMake files under tandem/, lowest first.
Checked:
  arrows   a file of a layer includes only its own layer and those it DEPENDS on, directly or through another, minus
           what it is declared NEVER to include; files of tandem/app that belong to no layer may include everything
  torch    a layer without TORCH includes nothing of LibTorch and depends on no layer with TORCH
  headers  no header includes <torch/torch.h>, which costs every includer seconds; there are narrow ones
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|caffe2|torchgen)/")
WHOLE_TORCH = {"torch/torch.h", "torch/all.h", "torch/extension.h", "ATen/ATen.h"}


@dataclass
class Layer:
    name: str
    folder: str
    torch: bool
    depends: list[str] = field(default_factory=list)
    never: set[str] = field(default_factory=set)
    may_include: set[str] = field(default_factory=set)


def declarations(root: Path) -> list[list[str]]:
    """The words of every tandem_layer(...), in the order in which CMake reads them."""
    calls = []
    for cmake in sorted((root / "tandem").rglob("CMakeLists.txt"), key=lambda path: len(path.parts)):
        text = re.sub(r"#[^\n]*", "", cmake.read_text())
        calls += [call.split() for call in re.findall(r"\btandem_layer\s*\(([^)]*)\)", text)]
    return calls


def read_layers(root: Path) -> tuple[dict[str, Layer], list[str]]:
    layers: dict[str, Layer] = {}
    faults = []
    for words in declarations(root):
        values: dict[str, list[str]] = {
            key: [] for key in ("NAME", "FOLDER", "DEPENDS", "NEVER", "LINK", "WINGS", "ALONE")
        }
        key = ""
        for word in words:
            if word in values or word == "TORCH":
                key = word
            else:
                values[key].append(word)
        name = values["NAME"][0]
        layer = Layer(name, (values["FOLDER"] or [name])[0], "TORCH" in words, values["DEPENDS"], set(values["NEVER"]))
        for below in layer.depends:
            if below not in layers:
                faults.append(f"layer {name} depends on {below}, which is not declared before it")
                continue
            if layers[below].torch and not layer.torch:
                faults.append(f"layer {name} is without TORCH and depends on {below}, which has it")
            layer.may_include |= {below} | layers[below].may_include
        layer.may_include -= layer.never
        layers[name] = layer
    return layers, faults


def layer_of(path: str, layers: dict[str, Layer]) -> Layer | None:
    """The layer with the longest folder that holds `path` (tandem/rl/env/spec.h)."""
    fitting = [layer for layer in layers.values() if path.startswith(f"tandem/{layer.folder}/")]
    return max(fitting, key=lambda layer: len(layer.folder), default=None)


def file_faults(root: Path, path: str, layers: dict[str, Layer]) -> list[str]:
    layer = layer_of(path, layers)
    if layer is None and path.startswith("tandem/") and not path.startswith("tandem/app/"):
        return [f"{path}: belongs to no layer; declare one with tandem_layer in a CMakeLists.txt"]
    faults = []
    text = (root / path).read_text()
    for match in INCLUDE.finditer(text):
        quote, target = match.groups()
        where = f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}"
        if path.endswith(".h") and target in WHOLE_TORCH:
            faults.append(f"{where}: a header includes <{target}>; take the narrow headers of what it uses")
        if layer is None:
            continue
        if TORCH.match(target) and not layer.torch:
            faults.append(f"{where}: layer {layer.name} is without TORCH and includes <{target}>")
        if not target.startswith("tandem/"):
            if quote == '"' and (root / path).parent.joinpath(target).exists():
                faults.append(f'{where}: name the file from the top: "tandem/..."')
            continue
        other = layer_of(target, layers)
        if other is None:
            faults.append(f"{where}: layer {layer.name} includes {target}, which belongs to no layer")
        elif other is not layer and other.name not in layer.may_include:
            allowed = ", ".join(sorted(layer.may_include)) or "nothing"
            faults.append(f"{where}: layer {layer.name} includes {target} of layer {other.name}; "
                          f"it may include {allowed}")
    return faults


def source_files(root: Path) -> list[str]:
    folders = ("tandem", "tests", "examples", "bench", "fuzz")
    found = [path for folder in folders for path in (root / folder).rglob("*") if path.suffix in {".h", ".cc", ".cu"}]
    return sorted(str(path.relative_to(root)) for path in found)


def main() -> int:
    layers, faults = read_layers(ROOT)
    for path in source_files(ROOT):
        faults += file_faults(ROOT, path, layers)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
