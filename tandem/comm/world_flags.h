// comm/world_flags.h: the command-line flags --backend, --hosts-by, --network, --encrypt and
// --insecure of programs whose ranks meet in
// open_world(). Does not include LibTorch, so that a program can parse its command line without it.
//
// Threads: all. Errors: ConfigError with all faults; each names the flag, its value, and what would work.
#pragma once
#include <string>

namespace tandem::comm {

struct WorldOptions;  // comm/world.h, which needs LibTorch

/// The values of the flags as the user gave them, not checked; empty for a flag that was not given, which means the
/// default of WorldOptions.
struct WorldFlags {
  std::string backend = {};   // auto, host, tcp or nccl
  std::string hosts_by = {};  // key, or the ranks of each host: 0,1/2,3
  std::string network = {};   // for TCP: an interface or an address of this host
  std::string encrypt = {};   // control, or all
  bool is_insecure = false;   // --insecure
};

/// The texts for --help.
inline constexpr const char* kBackendHelp =
    "How ranks exchange: shared memory (host), TCP, or NCCL on cuda:LOCAL_RANK. [auto]";
inline constexpr const char* kHostsByHelp = "Which ranks share a host, as in 0,1/2,3. [key: their systems say]";
inline constexpr const char* kNetworkHelp = "Interface or address of this host for TCP.";
inline constexpr const char* kInsecureHelp =
    "Ranks of several hosts need no secret (TANDEM_RUN_SECRET_FILE): nobody else reaches their network.";

inline constexpr const char* kEncryptHelp =
    "What goes between hosts by TLS: control (the store, by which ranks meet), or all (gradients, too). [control]";

/// The options for open_world().
[[nodiscard]] WorldOptions read_world_flags(const WorldFlags& flags);

}  // namespace tandem::comm
