#include <ATen/ATen.h>

#include <cctype>

#include "tandem/app/commands/scratch_folder.h"
#include "tandem/app/export/check_files.h"
#include "tandem/app/export/export_check.h"
#include "tandem/app/run/other_program.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/export/exported_policy.h"
#include "tandem/rl/policy/export/header_export.h"

namespace tandem::app {
namespace {

// A compiler takes a minute for the largest header.
constexpr std::chrono::minutes kCompilerPatience{5};

// Reads the files of write_rows() in the folder that it is called with, and writes `actions` there.
constexpr const char* kBegin = R"(
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace POLICY;
static std::vector<char> read(const std::string& path) {
  std::vector<char> bytes;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) std::exit(1);
  char part[65536];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + n);
  std::fclose(file);
  return bytes;
}

int main(int, char** arguments) {
  const std::string folder = std::string(arguments[1]) + "/";
  const long rows = std::atol(arguments[2]);
)";
constexpr const char* kEnd = R"(      std::printf("the header has no action for observation %ld\n", row);
      return 1;
    }
    std::memcpy(actions.data() + row * sizeof action, &action, sizeof action);
  }
  std::FILE* const file = std::fopen((folder + "actions").c_str(), "wb");
  const bool written = file != nullptr && std::fwrite(actions.data(), 1, actions.size(), file) == actions.size();
  return written && std::fclose(file) == 0 ? 0 : 1;
}
)";

// Leaves, state and mask of a row are copied from the files to the structs of the header, whose layout is the same.
std::string main_of(const std::filesystem::path& header, const TrainedPolicy& trained, bool remembers) {
  const rl::Spec& spec = trained.policy->spec();
  const std::vector<std::string> names = rl::leaf_names(spec);
  std::string reads, copies, arguments = "observation, ";
  const auto copy = [&](const std::string& file, const std::string& to) {
    reads += concat("  const std::vector<char> of_", file, " = read(folder + \"", file, "\");\n");
    copies += concat("    std::memcpy(", to, ", of_", file, ".data() + row * sizeof ", to, ", sizeof ", to, ");\n");
  };
  for (std::size_t l = 0; l < names.size(); ++l) copy(concat("leaf_", l), "observation." + names[l]);
  if (remembers) {
    copies += "    State state;\n";
    copy("state", "state.numbers");
    arguments += "state, ";
  }
  arguments += "action";
  if (const std::int64_t options = rl::mask_elements(spec.action); options > 0) {
    reads += "  const std::vector<char> masks = read(folder + \"mask\");\n";
    arguments += concat(", reinterpret_cast<const std::uint8_t*>(masks.data()) + row * ", options);
  }
  return concat("#define POLICY ", rl::header_namespace(header), "\n#include \"", header.filename().string(), "\"\n",
                kBegin, reads, "  std::vector<char> actions(rows * sizeof(Action));\n",
                "  for (long row = 0; row < rows; ++row) {\n    Observation observation;\n", copies,
                "    Action action;\n    if (!act(", arguments, ")) {\n", kEnd);
}

}  // namespace

// The plan: rows to files, a program around the header, compile, run, and read what it wrote.
at::Tensor header_actions(const std::filesystem::path& file, const TrainedPolicy& trained, const RecordedRows& rows) {
  const auto compiler = find_program({"c++", "g++", "clang++"});
  if (!compiler)
    throw ConfigError(concat("--check compiles ", file.string(),
                             " and found no compiler: there is no c++, g++ or clang++ in PATH; install one (on Debian: "
                             "apt-get install g++). The file itself was written"));
  const ScratchFolder scratch("export");
  write_rows(scratch.path(), trained, rows);
  const std::filesystem::path source = scratch.path() / "main.cc", program = scratch.path() / "main";
  write_file(source, main_of(file, trained, rows.state.defined()));
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  const ProgramEnd compiled = run_to_end(
      {compiler->string(), "-std=c++11", "-O2", concat("-I", folder.string()), source.string(), "-o", program.string()},
      kCompilerPatience);
  if (compiled.code != 0)
    throw RunError(concat(compiler->string(), " does not compile ", file.string(), "; it said: ", compiled.said));
  const ProgramEnd ran =
      run_to_end({program.string(), scratch.path().string(), concat(rows.rows())}, kCompilerPatience);
  if (ran.code != 0)
    throw RunError(concat("the program with ", file.string(), " ended with code ", ran.code, "; it said: ", ran.said));
  return read_actions(scratch.path(), trained, rows);
}

}  // namespace tandem::app
