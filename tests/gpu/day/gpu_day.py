#!/usr/bin/env python3
"""All that can be tried on a CUDA device, in under twenty minutes, in one report that says what to mend first.

    gpu_day.py [--build build/release] [--report build/gpu-day] [--only tests,trainings,benches] [--minutes 20]
    gpu_day.py --only trainings --trainings dqn     # again, after a change: those with the word in their names

It runs the tests with the label gpu, short trainings of every kind (twice on the device, for their bits, and once on
the CPU, for their speed), and the benches for a device. The report is REPORT/report.md, with all figures in
REPORT/report.json beside it. What there is no time for is named as not tried. Ctrl-C ends it with the report so far.

Exit status: 0 when nothing is to be mended; 1 when something is; 2 without a device or a build; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import findings
from report import markdown
from trials import TRIALS, Outcome, run_trial

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("tests", "trainings", "benches")
BENCHES = ("ppo_cuda",)
ROUNDS = 3
MOST_OF_A_TRIAL_S = 60  # what a training has to be given for it to be begun
TESTS_LIMIT_S = 600


class Clock:
    def __init__(self, minutes: float):
        self._began = time.monotonic()
        self._ends = self._began + 60 * minutes

    def passed(self) -> float:
        return time.monotonic() - self._began

    def left(self) -> float:
        return max(0.0, self._ends - time.monotonic())


def say(text: str) -> None:
    print(f"gpu-day: {text}", file=sys.stderr, flush=True)


def refuse(text: str) -> None:
    say(text)
    sys.exit(2)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "release", help="the build to try (build/release)"
    )
    parser.add_argument(
        "--report", type=Path, default=ROOT / "build" / "gpu-day", help="the report's folder (build/gpu-day)"
    )
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, with commas between them ({','.join(PARTS)})")
    parser.add_argument(
        "--trainings", default="", metavar="WORD", help="only the trainings that have it in their names"
    )
    parser.add_argument("--minutes", type=float, default=20, help="after these nothing new is begun (20)")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if not any(options.trainings in trial.name for trial in TRIALS):
        parser.error(
            f"--trainings: none has {options.trainings!r} in its name; there are "
            + "; ".join(each.name for each in TRIALS)
        )
    if unknown := [part for part in options.only if part not in PARTS]:
        parser.error(f"--only: there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return options


def describe_device() -> dict[str, str]:
    """Ends the program where there is no device."""
    question = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(question, capture_output=True, text=True, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired) as missing:
        refuse(
            f"there is no CUDA device here that could be asked: {missing}. The tests of what needs none are `make test`"
        )
    if done.returncode != 0 or not done.stdout.strip():
        refuse(f"nvidia-smi names no CUDA device: {(done.stdout + done.stderr).strip()}")
    return {"device": done.stdout.strip().replace("\n", "; ")}


def describe_build(build: Path) -> dict[str, str]:
    if not (build / "bin" / "tandem").exists():
        refuse(f"{build}/bin/tandem is not there; `make gpu-day` builds it")
    done = subprocess.run(
        [build / "bin" / "tandem", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    return {"tandem": ", ".join(" ".join(line.split()) for line in done.stdout.splitlines() if line.strip())}


def run_tests(build: Path, scratch: Path, limit_s: float) -> dict[str, Any]:
    """What GoogleTest reports of each case. A program that dies has the case that it was in fail."""
    program, out = build / "bin" / "tandem_gpu_tests", scratch / "tests.json"
    began, how = time.monotonic(), ""
    try:
        done = subprocess.run([program, f"--gtest_output=json:{out}"], capture_output=True, text=True, timeout=limit_s)
        printed = done.stdout + done.stderr
        if done.returncode not in (0, 1):
            how = f"the program ended with {done.returncode}"
    except subprocess.TimeoutExpired as late:
        printed, how = str(late.stdout or ""), f"it did not end within {limit_s:.0f} s"
    cases = []
    if out.exists():
        for suite in json.loads(out.read_text())["testsuites"]:
            for case in suite["testsuite"]:
                failures = [each["failure"].strip() for each in case.get("failures", [])]
                cases.append(
                    {
                        "name": f"{suite['name']}.{case['name']}",
                        "failures": failures,
                        "skipped": case["result"] == "SKIPPED",
                    }
                )
    if how or not cases:
        begun = [line.split("] ", 1)[1] for line in printed.splitlines() if line.startswith("[ RUN")]
        why = how or "GoogleTest wrote no report"
        cases.append(
            {
                "name": begun[-1] if begun else "the test program",
                "skipped": False,
                "failures": ["\n".join([why, *printed.splitlines()[-8:]])],
            }
        )
    return {"seconds": time.monotonic() - began, "cases": cases}


def run_trials(
    options: argparse.Namespace, scratch: Path, clock: Clock, outcomes: list[Outcome], left_out: list[str]
) -> None:
    cpus = min(2, os.cpu_count() or 1)
    for trial in TRIALS:
        if options.trainings not in trial.name or clock.left() < MOST_OF_A_TRIAL_S:
            left_out.append(f"training: {trial.name}")
            continue
        outcomes.append(run_trial(trial, options.build / "bin" / "tandem", cpus, scratch))
        say(f"{trial.name}: {outcomes[-1].seconds:.0f} s")


def run_benches(build: Path, scratch: Path, clock: Clock, left_out: list[str]) -> dict[str, Any]:
    out = scratch / "bench.json"
    command = [ROOT / "bench" / "run.py", "--no-peers", "--repeats", ROUNDS, "--build", build, "--json", out, *BENCHES]
    try:
        subprocess.run([sys.executable, *map(str, command)], stdout=subprocess.DEVNULL, timeout=max(1.0, clock.left()))
    except subprocess.TimeoutExpired:
        left_out.append(f"benches that were not through in time: {', '.join(BENCHES)}")
    if not out.exists():
        left_out.append("benches: bench/run.py wrote nothing")
        return {}
    return json.loads(out.read_text())


def main() -> int:
    options = arguments()
    machine = describe_device() | describe_build(options.build)
    clock, stopped = Clock(options.minutes), False
    day: dict[str, Any] = {
        "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": machine,
        "tests": {},
        "benches": {},
        "left_out": [part for part in PARTS if part not in options.only],
    }
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="tandem-gpu-day-") as folder:
        scratch = Path(folder)
        try:
            if "tests" in options.only:
                say("tests")
                day["tests"] = run_tests(options.build, scratch, min(TESTS_LIMIT_S, max(1.0, clock.left())))
            if "benches" in options.only:
                say("benches")
                day["benches"] = run_benches(options.build, scratch, clock, day["left_out"])
            if "trainings" in options.only:
                run_trials(options, scratch, clock, outcomes, day["left_out"])
        except KeyboardInterrupt:
            stopped = True
            day["left_out"].append("what came after Ctrl-C")
    day["seconds"] = clock.passed()
    found = findings.of_trials(outcomes)
    if day["tests"]:
        found += findings.of_tests(day["tests"]["cases"], str(options.build / "bin" / "tandem_gpu_tests"))
    if day["benches"]:
        found += findings.of_benches(day["benches"])
    found = findings.in_order(found)
    options.report.mkdir(parents=True, exist_ok=True)
    text = markdown(day, found, outcomes)
    (options.report / "report.md").write_text(text)
    (options.report / "report.json").write_text(
        json.dumps(
            day
            | {
                "trainings": [each.to_json() for each in outcomes],
                "findings": [
                    {
                        "rank": findings.WORDS[each.rank],
                        "what": each.what,
                        "evidence": each.evidence,
                        "again": each.next_step,
                    }
                    for each in found
                ],
            },
            indent=1,
        )
        + "\n"
    )
    print(text)
    print(f"The report: {options.report / 'report.md'}")
    return 130 if stopped else 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
