#!/usr/bin/env python3
"""check_comments [FOLDER...]: how much the library's comments say, and whether they begin with their subject.

A comment is a block of lines that begin with //, or what stands behind code on a line. Counted over product code
(tandem/ without tests): the share of lines in headers and in .cc files that are comments, blank lines left out, and the
share of comments whose first word leaves the subject to the reader. Fails where a share is beyond its bound. With
folders: shows the figures of these, and judges nothing.
"""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST_IN_HEADERS = 0.35
LEAST_IN_SOURCES = 0.06
MOST_WITHOUT_SUBJECT = 0.02
WITHOUT_SUBJECT = re.compile(r"^(Of|What|The same|Likewise|Those)\b")
PRODUCT = re.compile(r"^tandem/(?!.*/testing/)(?!.*_test\.cc$).*\.(h|inc|cc|cu)$")
BEHIND_CODE = re.compile(r'^(?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*[^\s/]\s+//[/<]*\s*(.*)$')


@dataclass
class Counts:
    header_lines: int = 0
    header_comments: int = 0
    source_lines: int = 0
    source_comments: int = 0
    comments: int = 0
    without_subject: list[str] = field(default_factory=list)


def count_file(path: str, counts: Counts) -> None:
    header = path.endswith((".h", ".inc"))
    within = False  # a block of comment lines
    for number, line in enumerate((ROOT / path).read_text().split("\n"), start=1):
        text = line.strip()
        whole = text.startswith("//")
        if not text:
            within = False
            continue
        if header:
            counts.header_lines += 1
            counts.header_comments += whole
        else:
            counts.source_lines += 1
            counts.source_comments += whole
        behind = None if whole else BEHIND_CODE.match(line)
        first = re.sub(r"^/{2,}<?\s*", "", text) if whole and not within else behind[1] if behind else None
        within = whole
        if first is None or first.startswith("NOLINT"):
            continue
        counts.comments += 1
        if WITHOUT_SUBJECT.match(first):
            counts.without_subject.append(f"{path}:{number}: {first}")


def count(folders: list[str]) -> Counts:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *(folders or ["tandem"])]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    counts = Counts()
    for path in listed:
        if PRODUCT.match(path) and (ROOT / path).is_file():
            count_file(path, counts)
    return counts


def shares(counts: Counts) -> tuple[float, float, float]:
    return (counts.header_comments / max(1, counts.header_lines), counts.source_comments / max(1, counts.source_lines),
            len(counts.without_subject) / max(1, counts.comments))


def faults() -> list[str]:
    counts = count([])
    headers, sources, without = shares(counts)
    found = []
    if headers < LEAST_IN_HEADERS:
        found.append(f"headers: {headers:.1%} of their lines are comments, fewer than {LEAST_IN_HEADERS:.0%}")
    if sources < LEAST_IN_SOURCES:
        found.append(f".cc files: {sources:.1%} of their lines are comments, fewer than {LEAST_IN_SOURCES:.0%}")
    if without > MOST_WITHOUT_SUBJECT:
        found += counts.without_subject
        found.append(f"{without:.1%} of the comments begin without their subject, more than {MOST_WITHOUT_SUBJECT:.0%}")
    return found


def main() -> int:
    if len(sys.argv) == 1:
        found = faults()
        print("\n".join(found))
        return 1 if found else 0
    counts = count(sys.argv[1:])
    headers, sources, without = shares(counts)
    print("\n".join(counts.without_subject))
    print(f"headers {headers:.1%} of {counts.header_lines}, sources {sources:.1%} of {counts.source_lines}, "
          f"without a subject {without:.1%} of {counts.comments}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
