#include <ATen/ATen.h>

#include "tandem/app/commands/scratch_folder.h"
#include "tandem/app/export/check_files.h"
#include "tandem/app/export/export_check.h"
#include "tandem/app/run/other_program.h"
#include "tandem/app/train/python_choice.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::chrono::minutes kPythonPatience{5};
constexpr int kNoPackage = 9;  // the script's exit code

// The inputs of the model stand in the order of the leaves; mask and state have their names.
constexpr const char* kScript = R"text(
import pathlib, sys
try:
    import numpy, onnxruntime
except ImportError as error:
    print(error)
    sys.exit(9)
model, folder, rows = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
kinds = {"tensor(float)": numpy.float32, "tensor(double)": numpy.float64, "tensor(int64)": numpy.int64,
         "tensor(uint8)": numpy.uint8}
feed, leaf = {}, 0
for its in session.get_inputs():
    if its.name in ("state", "mask"):
        path = folder / its.name
    else:
        path, leaf = folder / f"leaf_{leaf}", leaf + 1
    feed[its.name] = numpy.fromfile(path, kinds[its.type]).reshape([rows, *its.shape[1:]])
session.run(["action"], feed)[0].tofile(folder / "actions")
)text";

}  // namespace

// The script says by its exit code whether packages were missing, which the user can mend.
at::Tensor onnx_actions(const std::filesystem::path& file, const TrainedPolicy& trained, const RecordedRows& rows,
                        const CheckTools& tools) {
  const std::filesystem::path python = python_of(tools.python);
  const ScratchFolder scratch("export");
  write_rows(scratch.path(), trained, rows);
  const ProgramEnd ran = run_to_end({python.string(), "-c", kScript, std::filesystem::absolute(file).string(),
                                     scratch.path().string(), concat(rows.rows())},
                                    kPythonPatience);
  if (ran.code == kNoPackage)
    throw ConfigError(concat("--check runs ", file.string(), " in onnxruntime, which ", python.string(),
                             " does not have (", ran.said, "): ", python.string(),
                             " -m pip install onnxruntime, or name another Python by --python. The file itself was "
                             "written"));
  if (ran.code != 0)
    throw RunError(
        concat("onnxruntime in ", python.string(), " does not run ", file.string(), "; it said: ", ran.said));
  return read_actions(scratch.path(), trained, rows);
}

}  // namespace tandem::app
