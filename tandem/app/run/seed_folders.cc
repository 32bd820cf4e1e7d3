#include "tandem/app/run/seed_folders.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::string_view kSeed = "seed-";

std::optional<std::int64_t> seed_of(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kSeed)) return std::nullopt;
  std::int64_t seed = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kSeed.size(), end, seed);
  // A name such as seed-007 is not one that this program gives.
  const bool is_whole = error == std::errc{} && stop == end && seed >= 0;
  return is_whole && name == concat(kSeed, seed) ? std::optional(seed) : std::nullopt;
}

}  // namespace

RunPaths seed_run(const std::filesystem::path& folder, std::int64_t seed) { return {folder / concat(kSeed, seed)}; }

bool is_seed_folder(const std::filesystem::path& folder) { return seed_of(folder).has_value(); }

std::vector<RunPaths> seed_runs(const std::filesystem::path& folder) {
  std::vector<RunPaths> runs;
  std::error_code error;
  try {
    if (!std::filesystem::is_directory(folder, error) || holds_run(folder)) return {};
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      if (is_seed_folder(entry->path()) && holds_run(entry->path())) runs.push_back({entry->path()});
  } catch (const CheckpointError&) {  // what cannot be read holds no runs for us
    return {};
  }
  std::ranges::sort(runs, {}, [](const RunPaths& run) { return seed_of(run.folder); });
  return runs;
}

}  // namespace tandem::app
