// Question: can any text, as a status file, a line of metrics, a whole metrics.jsonl, or a record of rollouts, make its
// readers crash, hang, or read it as something else than it says?
//
// The first byte chooses the reader.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/plot/chart.h"
#include "tandem/app/run/rollout_record.h"
#include "tandem/app/run/run_status.h"
#include "tandem/app/run/update_metrics.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/input_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"
#include "tandem/metrics/jsonl_sink.h"

namespace {

using namespace tandem;
using namespace tandem::app;

void read_run_status(std::string_view text) {
  const RunStatus status = parse_status(text);
  (void)top_text({.folder = "run", .status = status, .age_s = 1}, 100);
  const std::string written = to_json(status);
  if (to_json(parse_status(written)) != written) std::abort();
}

void read_line(std::string_view text) {
  const UpdateMetrics metrics = from_line(read_json(text));
  (void)return_text(metrics, "-");
  const std::string written = to_json(to_record(metrics));
  if (to_json(to_record(from_line(read_json(written)))) != written) std::abort();
}

// A file in memory, which is the same one each time: on a disk, most of the time would go into syncing it.
std::filesystem::path file_of(std::string_view text) {
  static const Descriptor memory(::memfd_create("run_files_fuzz", MFD_CLOEXEC));
  if (::ftruncate(memory.get(), 0) != 0) std::abort();
  if (::pwrite(memory.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) std::abort();
  return concat("/proc/self/fd/", memory.get());
}

// The readers of a file agree about where its last whole line is.
void read_file_of_lines(std::string_view text) {
  const std::filesystem::path file = file_of(text);
  LineReader lines(file, 64);
  std::string last;
  try {
    while (const auto line = lines.next()) last = *line;
    if (lines.end() != bytes_of_lines(file) || last_line(file, 64).value_or("") != last) std::abort();
  } catch (const DataError&) {  // a line of more than 64 bytes
  }
  try {
    (void)read_points(file, "updates", "loss", 4);
  } catch (const DataError&) {
  }
  (void)truncate_jsonl(file, "updates", 3);
  if (std::filesystem::file_size(file) > text.size()) std::abort();
}

void read_replay(std::string_view text) {
  constexpr int kGroups = 2, kMost = 100;
  for (const std::vector<int>& steps : read_rollouts(std::string(text), "rollouts.jsonl", kGroups, kMost)) {
    if (std::ssize(steps) != kGroups) std::abort();
    for (const int its : steps) {
      if (its < 0 || its > kMost) std::abort();
    }
  }
}

void check_printable(std::string_view text) {
  const std::string shown = printable(text);
  if (printable(shown) != shown) std::abort();  // nothing in it is a control character
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 5) {
      case 0:
        read_run_status(text);
        break;
      case 1:
        read_line(text);
        break;
      case 2:
        read_file_of_lines(text);
        break;
      case 3:
        check_printable(text);
        break;
      default:
        read_replay(text);
    }
  } catch (const DataError&) {
  } catch (const CheckpointError&) {
  } catch (const ConfigError&) {  // of a record that the user names
  }
  return 0;
}
