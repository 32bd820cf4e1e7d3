// comm/slurm_node_list.h: the first host of a list as Slurm writes it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tandem::comm {

/// "node[07-09,12],login1" gives "node07"; "rack[1-2]-n[3,5]" gives "rack1-n3". Nothing when the text is no such list.
[[nodiscard]] std::optional<std::string> first_host(std::string_view node_list);

}  // namespace tandem::comm
