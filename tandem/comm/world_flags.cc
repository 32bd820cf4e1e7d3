#include "tandem/comm/world_flags.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/world.h"

namespace tandem::comm {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Reads "0,1/2,3" as {{0, 1}, {2, 3}}. Nothing when the text is no such list; whether each rank is there once is
// checked by HostMap::by_list().
std::optional<std::vector<std::vector<int>>> read_rank_list(std::string_view text) {
  std::vector<std::vector<int>> hosts;
  for (const std::string_view host : split(text, '/')) {
    std::vector<int>& ranks = hosts.emplace_back();
    for (const std::string_view word : split(host, ',')) {
      const auto rank = parse_number<int>(word);
      if (!rank || *rank < 0) return std::nullopt;
      ranks.push_back(*rank);
    }
  }
  return hosts;
}

}  // namespace

WorldOptions read_world_flags(const WorldFlags& flags) {
  WorldOptions options;
  options.network = flags.network;
  options.is_insecure = flags.is_insecure;
  std::vector<std::string> faults;
  if (!flags.backend.empty()) {
    constexpr std::array kAll{Backend::kAuto, Backend::kHost, Backend::kTcp, Backend::kNccl};
    const auto* const named =
        std::ranges::find(kAll, flags.backend, [](Backend each) { return std::string_view(name_of(each)); });
    if (named != kAll.end())
      options.backend = *named;
    else
      faults.push_back(concat("--backend ", flags.backend, ": expected auto, host, tcp or nccl"));
  }
  if (flags.encrypt == "all")
    options.traffic = net::Traffic::kEncrypted;
  else if (!flags.encrypt.empty() && flags.encrypt != "control")
    faults.push_back(concat("--encrypt ", flags.encrypt, ": expected control or all"));
  if (!flags.hosts_by.empty() && flags.hosts_by != "key") {
    if (auto hosts = read_rank_list(flags.hosts_by)) {
      options.hosts_by = HostsBy::kRankList;
      options.hosts = *std::move(hosts);
    } else {
      faults.push_back(concat("--hosts-by ", flags.hosts_by,
                              ": expected key, or the ranks of each host, commas between ranks and strokes between ",
                              "hosts, as in 0,1/2,3"));
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return options;
}

}  // namespace tandem::comm
