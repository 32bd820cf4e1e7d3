#!/usr/bin/env python3
"""Fails where the public headers are not what users are told.

cmake/PublicHeaders.cmake lists them. Checked:
  number   there are 40 or fewer, and each exists
  guide    README.md's "Guide to the headers" names the same ones
  users    examples, package tests and the programs in the documents include no other header of tandem, but that of
           MuJoCo's tasks, which is not public because it needs the headers of another package
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 40
OF_ANOTHER_PACKAGE = "tandem/rl/env/mujoco/tasks/mujoco_task.h"
LIST = "cmake/PublicHeaders.cmake"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](tandem/[^>"]+)[>"]', re.MULTILINE)
USERS = ("examples/**/*.h", "examples/**/*.cc", "tests/package/**/*.cc", "tests/readme/*.cc", "*.md", "docs/**/*.md")


def public_headers(root: Path) -> list[str]:
    text = re.sub(r"#[^\n]*", "", (root / LIST).read_text())
    return [f"tandem/{path}" for path in re.findall(r"\S+\.h\b", text)]


def guide(root: Path) -> list[str]:
    """The headers that stand in the first cells of the guide's tables."""
    text = (root / "README.md").read_text()
    section = re.search(r"^## Guide to the headers\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\|([^|]*)\|", section[1] if section else "", re.MULTILINE)
    return [header for row in rows for header in re.findall(r"`(tandem/[^`]+\.h)`", row)]


def faults(root: Path) -> list[str]:
    headers = public_headers(root)
    found = []
    if len(headers) > MOST:
        found.append(f"{LIST}: {len(headers)} public headers, more than {MOST}")
    found += [f"{LIST}: there is no {header}" for header in headers if not (root / header).exists()]
    shown = guide(root)
    found += [f"README.md: the guide lacks {header}, which {LIST} lists" for header in headers if header not in shown]
    found += [f"README.md: {LIST} lacks {header}, which the guide names" for header in shown if header not in headers]
    for path in sorted(path for pattern in USERS for path in root.glob(pattern)):
        for header in INCLUDE.findall(path.read_text()):
            if header not in headers and header != OF_ANOTHER_PACKAGE:
                found.append(f"{path.relative_to(root)}: includes {header}, which is not public ({LIST})")
    return found


def main() -> int:
    found = faults(ROOT)
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
