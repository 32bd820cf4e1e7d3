#!/usr/bin/env python3
"""Measures Tandem and its peers: `make bench`, or `bench/run.py [NAME...]` when everything is built.

Each bench (a file of bench/suite) asks one question. Its contenders take turns, A B A B ..., and the table has the
median of their rounds, the ratio of the medians, and the spread from the lowest to the highest round. Compare the
ratios of one run: absolute figures differ between machines and hours. All samples, with machine, commit and versions,
go to a JSON file, and the ratios to a picture beside it.

Exit status: 0 when all benches gave results or could not be run on this machine, targets reached or not; 1 when one
failed or an answer was wrong, and with --strict also when a target was missed; 2 for wrong usage; 130 when Ctrl-C ended
it, with the results until then.
"""

import argparse
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

import harness.machine as machine
from harness.measure import Result, measure
from harness.model import Bench, Place, Size
from harness.peers import Peers, PeerEnvironments
from harness.picture import draw
from harness.report import table, to_json

ROOT = Path(__file__).resolve().parent.parent
SUITE = Path(__file__).resolve().parent / "suite"


def known_benches() -> dict[str, type[Bench]]:
    """The class BENCH of every file of bench/suite, by its name."""
    modules = [importlib.import_module(f"suite.{path.stem}") for path in sorted(SUITE.glob("*.py"))]
    return {module.BENCH.name: module.BENCH for module in modules}


def arguments(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure (all): {', '.join(names)}")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each bench (5)")
    parser.add_argument("--smoke", action="store_true", help="once and tiny: do they run, and are answers right?")
    parser.add_argument(
        "--strict", action="store_true", help="end with 1 when a target is MISSED; one that is not judged is none"
    )
    peers = parser.add_mutually_exclusive_group()
    peers.add_argument("--no-install", action="store_true", help="take only peers that are installed already")
    peers.add_argument("--no-peers", action="store_true", help="leave peers from the Python index out")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "release", help="the build to measure (build/release)"
    )
    parser.add_argument("--json", type=Path, help="where the results go (BUILD/bench.json); the picture beside it")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(names)):
        parser.error(f"no such bench: {', '.join(unknown)} (there are {', '.join(names)})")
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.strict and options.smoke:
        parser.error("--strict has no effect with --smoke: so little work reaches and misses no target")
    if not (options.build / "bin" / "tandem").exists():
        parser.error(f"{options.build}/bin/tandem is not there; build it with `make build`")
    return options


def chosen_peers(options: argparse.Namespace) -> Peers:
    if options.no_peers:
        return Peers.NONE
    return Peers.INSTALLED if options.no_install else Peers.ALL


def report(options: argparse.Namespace, started: dict, results: list[Result]) -> dict:
    return {
        "schema": 1,
        "started": started["time"],
        "smoke": options.smoke,
        "repeats": 1 if options.smoke else options.repeats,
        "machine": machine.describe_machine(),
        "load_at_start": started["load"],
        "source": machine.describe_source(ROOT),
        "tandem": machine.describe_tandem(options.build / "bin"),
        "benches": [to_json(result) for result in results],
    }


def missed_targets(results: list[Result]) -> list[str]:
    return [f"{result.name}: {metric.name}" for result in results for metric in result.metrics
            if result.met(metric) is False]


def caption(document: dict) -> str:
    its, commit = document["machine"], document["source"]["commit"] or "unknown"
    rounds = "a smoke run, which says nothing of speed" if document["smoke"] else f"{document['repeats']} rounds"
    changed = ", with changes" if document["source"]["changed"] else ""
    load = document["load_at_start"]
    return f"{its['cpu']}, {its['cores']} cores, load {load} at the start; commit {commit[:9]}{changed}; {rounds}"


class Clock:
    """Tells how far a run of several benches is."""

    def __init__(self, benches: int):
        self._benches, self._done, self._began = benches, 0, time.monotonic()

    def one_more(self, name: str) -> None:
        self._done += 1
        passed = int(time.monotonic() - self._began)
        text = f"bench: {name} is done, {self._done} of {self._benches}, after {passed // 60}:{passed % 60:02}"
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    benches = known_benches()
    options = arguments(list(benches))
    started = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load": round(machine.load(), 2)}
    if started["load"] > 0.5 and not options.smoke:
        print(f"bench: the machine is busy (load {started['load']}): absolute figures will be too low", file=sys.stderr)
    size = Size.SMOKE if options.smoke else Size.FULL
    results: list[Result] = []
    names, stopped = options.names or list(benches), False
    clock = Clock(len(names))
    output = options.json or options.build / "bench.json"
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as scratch:
        place = Place(
            root=ROOT,
            programs=options.build / "bin",
            scratch=Path(scratch),
            peers=PeerEnvironments(ROOT, chosen_peers(options)).python,
        )
        try:
            for name in names:
                results.append(measure(benches[name](place), size, options.repeats))
                # After each: what was measured is not lost should a later one end all.
                output.write_text(json.dumps(report(options, started, results), indent=1, allow_nan=False) + "\n")
                clock.one_more(name)
        except KeyboardInterrupt:
            stopped = True
    document = report(options, started, results)
    output.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    picture = output.with_suffix(".svg")
    picture.write_text(draw(results, caption(document)))
    for result in results:
        if result.failure:
            print(f"bench: {result.name}: {result.failure}", file=sys.stderr)
    print(table(results))
    failed = any(result.failure for result in results)
    if options.smoke and not failed:
        print("\nA smoke run: it shows that answers are right; its figures mean nothing.")
    print(f"\nAll samples: {output}\nPicture: {picture}")
    if stopped:
        print(f"Stopped after {len(results)} of {len(names)} benches.")
        return 130
    missed = missed_targets(results) if options.strict else []
    for target in missed:
        print(f"bench: missed: {target}", file=sys.stderr)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
