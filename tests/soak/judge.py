"""Whether what was seen after a fault is what the documents promise. Each complaint begins with its kind."""

from __future__ import annotations

from dataclasses import dataclass, field

COMPLAINTS = ("hang", "code", "leftover", "resume", "bits", "record")


@dataclass(frozen=True)
class Seen:
    """`codes`: of each process that was started, with those that are allowed; None where one has not ended."""

    codes: list[tuple[int | None, set[int]]] = field(default_factory=list)
    living: list[str] = field(default_factory=list)  # processes that outlived those that were started
    left: list[str] = field(default_factory=list)  # entries of /dev/shm, sockets, temporary files
    resume_codes: list[int | None] | None = None  # None: it was not resumed
    finished: bool = True
    state: str | None = None
    expected_state: str | None = None  # None: the mode promises no bits
    record: list[str] = field(default_factory=list)
    strange_files: list[str] = field(default_factory=list)


def complaints(seen: Seen) -> list[str]:
    found = []
    for code, allowed in seen.codes:
        if code is None:
            found.append("hang: it has not ended")
        elif code not in allowed:
            found.append(f"code: {code} is not one of {sorted(allowed)}")
    for code in seen.resume_codes or []:
        if code is None:
            found.append("hang: the resumed run has not ended")
        elif code != 0:
            found.append(f"resume: it ended with {code}")
    found += [f"leftover: the process {each}" for each in seen.living]
    found += [f"leftover: {each}" for each in seen.left + seen.strange_files]
    if not seen.finished:
        found.append("resume: summary.json does not say that the run has finished")
    elif seen.expected_state is not None and seen.state != seen.expected_state:
        found.append(f"bits: state {str(seen.state)[:12]} in place of {seen.expected_state[:12]}")
    return found + [f"record: {each}" for each in seen.record]
