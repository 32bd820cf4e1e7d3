#!/usr/bin/env python3
"""Runs exported policies where they are to run, and compares them with what Tandem computes.

usage: deployment_parity.py PATH/TO/deployment_exports [--keep FOLDER]

The driver writes policies of every kind, each with 1,000 observations. A model of ONNX has to pass onnx's checker, and
its actions in onnxruntime have to be the policy's to 1e-5. A C++ header is compiled as C++11 by GCC and clang without
optimisation, with -O2 and with -O3 -march=native; its actions have to have the bits of the portable kernels, and it may
ask for no memory. Exits with 1 and names the policy and the quantity when anything differs.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

TOLERANCE = 1e-5
DTYPES = {"Float": numpy.float32, "Double": numpy.float64, "Long": numpy.int64, "Byte": numpy.uint8}
OPTIONS = [["-O0"], ["-O2"], ["-O3", "-march=native"]]
STEPS_TO_TIME = 200_000

# The allocation functions of the linker's --wrap and of operator new count what the program asks for.
MAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <string>
#include <vector>
@INCLUDES@
static long allocations = 0;
extern "C" {
void* __real_malloc(std::size_t);
void* __real_calloc(std::size_t, std::size_t);
void* __real_realloc(void*, std::size_t);
void* __wrap_malloc(std::size_t n) { ++allocations; return __real_malloc(n); }
void* __wrap_calloc(std::size_t n, std::size_t m) { ++allocations; return __real_calloc(n, m); }
void* __wrap_realloc(void* p, std::size_t n) { ++allocations; return __real_realloc(p, n); }
}
void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = __real_malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }

static std::vector<unsigned char> read(const std::string& path) {
  std::vector<unsigned char> bytes;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) { std::perror(path.c_str()); std::exit(1); }
  unsigned char part[65536];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + n);
  std::fclose(file);
  return bytes;
}
static void write(const std::string& path, const std::vector<unsigned char>& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}
@FUNCTIONS@
int main(int, char** argv) {
  const std::string in = argv[1], out = argv[2];
  const long steps = std::atol(argv[3]);
@CALLS@
  return 0;
}
"""

FUNCTION = r"""
static void run_@NAME@(const std::string& in, const std::string& out, long steps) {
  using namespace tandem_@NAME@;
  const long rows = @ROWS@;
@READS@
  std::vector<unsigned char> actions(sizeof(Action) * rows), states(@STATE@ * sizeof(float) * rows);
  const long before = allocations;
  for (long row = 0; row < rows; ++row) {
    Observation observation;
@COPIES@
    Action action;
    if (!act(@ARGUMENTS@)) { std::printf("@NAME@: no action for row %ld\n", row); std::exit(1); }
    std::memcpy(actions.data() + row * sizeof action, &action, sizeof action);
@KEEPS@
  }
  const long asked = allocations - before;
  double sum = 0;
  const std::clock_t begin = std::clock();  // of this process alone, whatever else the machine does
  for (long step = 0; step < steps; ++step) {
    const long row = step % rows;
    Observation observation;
@COPIES@
    Action action;
    if (act(@ARGUMENTS@)) sum += static_cast<double>(@NUMBER@);
  }
  const double nanoseconds = 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  write(out + "/@NAME@.action.out", actions);
  write(out + "/@NAME@.state.out", states);
  std::printf("@NAME@ %ld %.0f %g\n", asked, steps > 0 ? nanoseconds / static_cast<double>(steps) : 0.0, sum);
}
"""


def array(stem, part, dtype, shape):
    return numpy.fromfile(f"{stem}.{part}.bin", dtype=dtype).reshape(shape)


def rows_of(facts):
    return facts["inputs"][0]["shape"][0]


def worst(mine, theirs):
    if mine.shape != theirs.shape:
        return float("inf")
    return float(numpy.abs(mine.astype(numpy.float64) - theirs.astype(numpy.float64)).max())


def differing_choices(chosen, expected, logits, options):
    """Rows whose choices differ although their logits do: two that are as good as equal may change places."""
    count, first = 0, 0
    for i, n in enumerate(options):
        its = logits[:, first : first + n]
        mine, theirs = chosen[:, i : i + 1], expected[:, i : i + 1]
        gap = numpy.abs(numpy.take_along_axis(its, mine, 1) - numpy.take_along_axis(its, theirs, 1))
        count += int((gap > TOLERANCE).sum())
        first += n
    return count


def compare_onnx(stem, facts, options):
    model = onnx.load(f"{stem}.onnx")
    onnx.checker.check_model(model, full_check=True)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    faults = [
        f"no {name} in the metadata"
        for name in ("env", "tandem_version", "observation", "algorithm")
        if name not in metadata
    ]
    session = onnxruntime.InferenceSession(f"{stem}.onnx", providers=["CPUExecutionProvider"])
    rows, discrete = rows_of(facts), facts["space"] != "box"
    feed = {
        leaf["name"]: array(stem, f"in_{i}", DTYPES[leaf["dtype"]], leaf["shape"])
        for i, leaf in enumerate(facts["inputs"])
    }
    if facts["state"]:
        feed["state"] = array(stem, "state", numpy.float32, (rows, facts["state"]))
    if facts["has_mask"]:
        feed["mask"] = array(stem, "mask", numpy.uint8, (rows, facts["options"]))
    names = ["action", "logits" if discrete else "mean"] + (["next_state"] if facts["state"] else [])
    result = dict(zip(names, session.run(names, feed)))
    shape = (rows,) if facts["space"] == "discrete" else (rows, facts["elements"])
    action = array(stem, "action", numpy.int64 if discrete else numpy.float32, shape)
    head = array(stem, "head", numpy.float32, (rows, -1))
    largest = worst(result[names[1]], head)
    if facts["state"]:
        largest = max(
            largest, worst(result["next_state"], array(stem, "next_state", numpy.float32, (rows, facts["state"])))
        )
    if result["action"].shape != shape:
        faults.append(f"actions of {result['action'].shape}")
    elif discrete:
        wide = (rows, facts["elements"])
        count = differing_choices(result["action"].reshape(wide), action.reshape(wide), head, options)
        if count:
            faults.append(f"{count} actions")
        if facts["has_mask"]:
            free = session.run(["action"], {**feed, "mask": numpy.ones_like(feed["mask"])})[0]
            if (free == result["action"]).all():
                faults.append("actions whatever the mask is")
    else:
        largest = max(largest, worst(result["action"], action))
    if not largest <= TOLERANCE:
        faults.append(f"numbers by {largest:.3g}")
    return largest, faults


def function_for(stem, facts):
    name = stem.name
    reads, copies = [], []
    for i, leaf in enumerate(facts["inputs"]):
        reads.append(f'  const std::vector<unsigned char> leaf_{i} = read(in + "/{name}.in_{i}.bin");')
        copies.append(
            f"    std::memcpy(observation.{leaf['name']}, leaf_{i}.data() + row * sizeof observation.{leaf['name']},"
            f" sizeof observation.{leaf['name']});"
        )
    arguments, keeps = ["observation"], []
    if facts["state"]:
        reads.append(f'  const std::vector<unsigned char> given = read(in + "/{name}.state.bin");')
        copies.append(
            "    State state;\n    std::memcpy(state.numbers, given.data() + row * sizeof state, sizeof state);"
        )
        keeps.append("    std::memcpy(states.data() + row * sizeof state, state.numbers, sizeof state);")
        arguments.append("state")
    arguments.append("action")
    if facts["has_mask"]:
        reads.append(f'  const std::vector<unsigned char> mask = read(in + "/{name}.mask.bin");')
        arguments.append(f"mask.data() + row * {facts['options']}")
    number = {"box": "action.values[0]", "multi": "action.choices[0]", "discrete": "action.choice"}[facts["space"]]
    text = FUNCTION
    for key, value in (
        ("NAME", name),
        ("ROWS", rows_of(facts)),
        ("READS", "\n".join(reads)),
        ("STATE", facts["state"]),
        ("COPIES", "\n".join(copies)),
        ("ARGUMENTS", ", ".join(arguments)),
        ("KEEPS", "\n".join(keeps)),
        ("NUMBER", number),
    ):
        text = text.replace(f"@{key}@", str(value))
    return text


def compare_headers(folder, stems, facts):
    """All headers in one program, as in that of a robot with several policies."""
    main = MAIN.replace("@INCLUDES@", "\n".join(f'#include "{stem.name}.h"' for stem in stems))
    main = main.replace("@FUNCTIONS@", "\n".join(function_for(stem, facts[stem]) for stem in stems))
    main = main.replace("@CALLS@", "\n".join(f"  run_{stem.name}(in, out, steps);" for stem in stems))
    source = folder / "main.cc"
    source.write_text(main)
    compilers = [compiler for compiler in ("g++", "clang++") if shutil.which(compiler)]
    if len(compilers) < 2:
        raise SystemExit(f"of g++ and clang++ there is only {compilers}")
    faults = []
    for compiler in compilers:
        for options in OPTIONS:
            called = " ".join([compiler, *options])
            program, out = folder / "main", folder / "out"
            out.mkdir(exist_ok=True)
            warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
            wraps = [f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc")]
            subprocess.run([compiler, "-std=c++11", *options, *warnings, *wraps, source, "-o", program], check=True)
            steps = STEPS_TO_TIME if "-O3" in options else 0
            said = subprocess.run([program, folder, out, str(steps)], check=True, stdout=subprocess.PIPE, text=True)
            times = []
            for line in said.stdout.splitlines():
                name, asked, nanoseconds, _ = line.split()
                if asked != "0":
                    faults.append(f"{called}: {name} asked for memory {asked} times")
                times.append(f"{name} {nanoseconds}")
            for stem in stems:
                for what, made in (("portable_action", "action"), ("portable_state", "state")):
                    theirs = pathlib.Path(f"{stem}.{what}.bin").read_bytes()
                    if (out / f"{stem.name}.{made}.out").read_bytes() != theirs:
                        faults.append(f"{called}: {stem.name} has other bits in its {made}s")
            print(f"{called}: {len(stems)} headers" + (f"; ns a step: {', '.join(times)}" if steps else ""), flush=True)
    return faults


def options_of(facts):
    return {"discrete": [facts["options"]], "multi": [3, 2], "box": []}[facts["space"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the files")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        subprocess.run([arguments.driver, folder], check=True)
        stems = sorted(path.with_suffix("") for path in folder.glob("*.json"))
        if len(stems) < 20:
            raise SystemExit(f"only {len(stems)} policies came from the driver")
        facts = {stem: json.loads(stem.with_suffix(".json").read_text()) for stem in stems}
        for stem in stems:
            largest, faults = compare_onnx(stem, facts[stem], options_of(facts[stem]))
            print(
                f"{stem.name:16} ONNX: worst difference {largest:.2e}"
                + (f"  DIFFERS: {', '.join(faults)}" if faults else ""),
                flush=True,
            )
            failed = failed or bool(faults)
        faults = compare_headers(folder, [stem for stem in stems if facts[stem]["header"]], facts)
        for fault in faults:
            print(f"DIFFERS: {fault}")
        failed = failed or bool(faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
