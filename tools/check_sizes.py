#!/usr/bin/env python3
"""check_sizes: whether the product's parts stay small: files of a folder, lines of a function.

Product code is tandem/ without tests. Prints a line for each folder and function beyond its bound, and the total.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_FILES = 40  # of a folder, its own folders not counted
LONGEST_FUNCTION = 60
PRODUCT = re.compile(r"^tandem/(?!.*/testing/)(?!.*_test\.cc$).*\.(h|inc|cc|cu)$")
NO_BEGIN = re.compile(r"^\s*($|//|#|\}|public:|private:|protected:)")


def product_files() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "tandem"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for path in listed if PRODUCT.match(path) and (ROOT / path).is_file()]


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def functions(text: str) -> list[tuple[int, int]]:
    """(first line, lines) of every block that a brace alone on its line ends, as clang-format writes functions: what
    stands between is indented further than both ends."""
    lines = text.split("\n")
    found = []
    for end, line in enumerate(lines):
        if line.strip() != "}":
            continue
        begin = end - 1
        while begin > 0 and (indent(lines[begin]) > indent(line) or NO_BEGIN.match(lines[begin])):
            begin -= 1
        found.append((begin + 1, end - begin + 1))
    return found


def faults() -> list[str]:
    found, folders = [], Counter()
    for path in product_files():
        text = (ROOT / path).read_text()
        folders[str(Path(path).parent)] += 1
        found += [f"{path}:{line}: a function of {length} lines, more than {LONGEST_FUNCTION}"
                  for line, length in functions(text) if length > LONGEST_FUNCTION]
    found += [f"{folder}: {count} product files, more than {MOST_FILES}: it holds more than one idea"
              for folder, count in sorted(folders.items()) if count > MOST_FILES]
    return found


def main() -> int:
    found = faults()
    print("\n".join(found))
    files = product_files()
    lines = sum((ROOT / path).read_text().count("\n") for path in files)
    print(f"{lines} lines of product code in {len(files)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
