// comm/world_flags.h: how a person says what a world is to be made of: the flags --backend, --hosts-by and --network of
// programs whose ranks meet in open_world().
//
// Threads: free functions. Errors: ConfigError with every fault, each naming flag, value, and what would work.
#pragma once
#include <string>

namespace tandem::comm {

struct WorldOptions;  // comm/world.h, which needs LibTorch

/// As given; empty for what was not.
struct WorldFlags {
  std::string backend = {};   // auto, host, gloo or nccl
  std::string hosts_by = {};  // key, or the ranks of each host: 0,1/2,3
  std::string network = {};   // for Gloo: an interface or an address of this host
};

/// For --help.
inline constexpr const char* kBackendHelp =
    "How ranks exchange: shared memory (host), Gloo, or NCCL on cuda:LOCAL_RANK. [auto]";
inline constexpr const char* kHostsByHelp = "Which ranks share a host, as in 0,1/2,3. [key: their systems say]";
inline constexpr const char* kNetworkHelp = "Interface or address of this host for Gloo.";

[[nodiscard]] WorldOptions read_world_flags(const WorldFlags& flags);

}  // namespace tandem::comm
