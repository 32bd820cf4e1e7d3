#!/usr/bin/env python3
"""Fails on what can be seen in the text of the files: their size, unfinished work, and house rules that a word
betrays."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 400
LONGEST_LINE = 120
SOURCES = {".h", ".cc", ".cu", ".py", ".cmake", ".txt", ".md", ".yaml", ".yml", ".json", ".sh", ""}
CODE = {".h", ".cc", ".cu"}
OF_ONE_WIDTH = CODE | {".md", ".py", ".cmake", ".yaml", ".sh"}

# The library's layers: what is under tandem/ except the program, less the tests beside the sources and what they share.
LIBRARY = re.compile(r"^tandem/(?!app/)(?!.*/testing/)(?!.*_test\.cc$).*\.(h|cc|cu)$")

# (files, files that may, what is not to be found there, what to do instead)
RULES = [
    (LIBRARY, r"^tandem/base/mutex\.h$", r"\bstd::(recursive_|shared_|timed_)?mutex\b|\bstd::condition_variable",
     "take Mutex, MutexLock and CondVar of tandem/base/mutex.h: clang checks who holds them"),
    (LIBRARY, r"^tandem/concurrency/", r"\bstd::j?thread\s+\w|\bstd::j?thread\s*[({]|\bstd::async\b",
     "threads are started by tandem/concurrency alone: named, joined, their failures caught"),
    # std::terminate() is about to end the process, and nothing tells when the groups' threads have sent why.
    (LIBRARY, r"^tandem/comm/departure\.cc$", r"\bsleep_for\b|\busleep\s*\(|\bsleep_until\b",
     "a sleep synchronises nothing; wait for what you need"),
    (LIBRARY, r"^tandem/comm/store/launcher_environment\.cc$", r"\bgetenv\s*\(",
     "the library does not read the environment"),
    # A destructor, and the thread of a door, can tell nobody else.
    (LIBRARY, r"^tandem/(sync/data_parallel|net/knocks)\.cc$",
     r"\bstd::c(out|err|log)\b|\b(std::)?f?printf\s*\(|\bputs\s*\(",
     "the library does not print"),
    (re.compile(r"^tandem/(?!.*_test\.cc$).*\.(h|cc|cu)$"), r"^tandem/base/text\.h$",
     r"\bstd::sto(d|f|ld)\b|\b(strto(d|f|ld)|atof)\s*\(|\"%[^\"%]*[efgEG]\"",
     "numbers are read and written by tandem/base/text.h, which depends on no locale"),
    # A worker of environments ends itself where nobody could catch anything: before its program runs, and when its
    # training is gone while an environment hangs.
    (LIBRARY, r"^tandem/(base/fault_point|comm/departure|rl/env/isolated/(env_worker|worker_process))\.cc$",
     r"\b(std::|_)?(quick_)?[eE]xit\s*\(|\bstd::(abort|terminate)\s*\(",
     "the library does not end the process; throw one of tandem/base/error.h"),
]
LINK = re.compile(r"\]\([^)]*\)")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")


def files() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for path in listed if (ROOT / path).is_file() and Path(path).suffix in SOURCES and path != "LICENSE"
            and not path.startswith("fuzz/corpus/")]


def without_comment(line: str) -> str:
    return line.split("//", 1)[0]


def too_wide(path: str, lines: list[str]) -> list[tuple[int, int]]:
    """Numbers and widths of the lines that are too wide. Lines of C++ with a text or an address may be, and so may
    tables, code, pictures and the targets of links in Markdown."""
    suffix = Path(path).suffix
    if suffix not in OF_ONE_WIDTH:
        return []
    found, within_code = [], False
    for number, line in enumerate(lines, start=1):
        if suffix == ".md":
            within_code ^= line.lstrip().startswith("```")
            if within_code or line.startswith(("|", "![")):
                continue
            line = LINK.sub("]", line)
        if len(line) > LONGEST_LINE and "http" not in line and not (suffix in CODE and '"' in line):
            found.append((number, len(line)))
    return found


def file_faults(path: str) -> list[str]:
    try:
        text = (ROOT / path).read_text()
    except UnicodeDecodeError:
        return []  # not a text, for all its name says
    lines = text.split("\n")
    faults = []
    if len(lines) - 1 > LONGEST_FILE and Path(path).suffix in CODE | {".py", ".cmake"}:
        faults.append(f"{path}: {len(lines) - 1} lines, more than {LONGEST_FILE}: it holds more than one idea")
    if text and not text.endswith("\n"):
        faults.append(f"{path}: the last line does not end")
    faults += [f"{path}:{number}: {width} characters, more than {LONGEST_LINE}"
               for number, width in too_wide(path, lines)]
    rules = [(re.compile(word), advice) for where, allowed, word, advice in RULES
             if where.match(path) and not re.match(allowed, path)]
    for number, line in enumerate(lines, start=1):
        if UNFINISHED.search(line):
            faults.append(f"{path}:{number}: unfinished: {line.strip()}")
        if line != line.rstrip() and not path.endswith(".md"):
            faults.append(f"{path}:{number}: blanks at the end of the line")
        for word, advice in rules:
            if word.search(without_comment(line)):
                faults.append(f"{path}:{number}: {advice}: {line.strip()}")
    return faults


def main() -> int:
    faults = [fault for path in files() for fault in file_faults(path)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
