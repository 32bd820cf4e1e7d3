#include "tandem/comm/links/c10d_group.h"

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/process.h"
#include "tandem/base/shared_library.h"
#include "tandem/base/text.h"
#include "tandem/comm/links/c10d_backends.h"
#include "tandem/comm/links/c10d_store.h"
#include "tandem/comm/links/peer_wire.h"
#include "tandem/device/device_set.h"
#include "tandem/net/sockets.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;

// Plan: check the options; exchange Introductions through the store, which is also how missing ranks are found; choose
// the network; connect with Gloo, and with NCCL if asked for; hand the backends to a LinkedMember.

// The data that members exchange before they connect. Lines of text, in the order of text().
struct Introduction {
  std::string name, own_address, store_address;

  [[nodiscard]] std::string text() const { return concat(name, "\n", own_address, "\n", store_address); }
  static Introduction parse(const std::string& text) {
    const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
    return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
  }
};

// A rank on the store's own host may reach the store by loopback, where other hosts cannot reach the rank. Then it
// takes the address by which another rank reaches the store: that is an address of this host.
std::string network_for(const Introduction& me, const std::vector<Introduction>& all) {
  if (!net::is_loopback(me.own_address)) return me.own_address;
  const auto far =
      std::find_if(all.begin(), all.end(), [](auto& each) { return !net::is_loopback(each.store_address); });
  return far == all.end() ? me.own_address : far->store_address;
}

// Gloo takes a time limit for connecting, at least 1 s here: a shorter one would fail between busy ranks.
std::chrono::milliseconds patience_for(const Limits& limits) {
  constexpr std::chrono::milliseconds kLongest = 10min;
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::min(limits.deadline.remaining(), Clock::duration(kLongest))),
                    std::chrono::milliseconds(1s), kLongest);
}

void check(const C10dGroupOptions& options) {
  std::vector<std::string> faults;
  if (options.size < 1) faults.push_back(concat("c10d group: a size of ", options.size));
  if (options.rank < 0 || options.rank >= options.size)
    faults.push_back(concat("c10d group: rank ", options.rank, " of ", options.size));
  if (!options.names.empty() && std::ssize(options.names) != options.size)
    faults.push_back(concat("c10d group: ", options.names.size(), " names for ", options.size, " members"));
  if (options.store == nullptr && options.size > 1) faults.emplace_back("c10d group: no store to meet the others at");
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

LinkedMemberOptions meet_over_gloo(const C10dGroupOptions& options) {
  check(options);
  if (!has_gloo()) (void)make_gloo_backend({}, 0, 1, "", {});  // throws ConfigError, which says what is missing
  const auto name_of = [&](int rank) {
    return options.names.empty() ? rank : options.names[static_cast<std::size_t>(rank)];
  };
  if (options.size == 1)
    return {.rank = 0, .names = {{name_of(0), process_name()}}, .backend = {}, .device_backend = {}};
  const std::string address = options.store->host_address();
  const Introduction me{process_name(), net::own_address_towards(address), address};
  std::vector<Introduction> all;
  LinkedMemberOptions member{.rank = options.rank, .names = {}, .backend = {}, .device_backend = {}};
  for (const std::string& text :
       exchange(*options.store, "introduction", options.rank, options.size, me.text(), options.limits)) {
    all.push_back(Introduction::parse(text));
    member.names.push_back({name_of(static_cast<int>(member.names.size())), all.back().name});
  }
  const BrokenPipeMask mask;
  member.backend =
      make_gloo_backend(make_c10d_store(options.store->part("gloo")), options.rank, options.size,
                        options.network.empty() ? network_for(me, all) : options.network, patience_for(options.limits));
  return member;
}

#ifdef TANDEM_NCCL
constexpr bool kHasNccl = true;

MakeNccl* load_nccl() {
  device::require_cuda();
  SharedLibrary library(kNcclLibrary);
  if (void* symbol = library.find(kNcclSymbol); symbol != nullptr) return reinterpret_cast<MakeNccl*>(symbol);
  throw ConfigError(concat("NCCL was asked for, but ", kNcclLibrary, " cannot be loaded: ", library.why_not(),
                           "; it lies where tandem's libraries were built or installed: add that folder to "
                           "LD_LIBRARY_PATH"));
}
#else
constexpr bool kHasNccl = false;

MakeNccl* load_nccl() {
  throw ConfigError(
      "this build has no NCCL: when it was configured, CUDA's headers or nccl.h were not found, or LibTorch was one "
      "without CUDA; name their folder with -DTANDEM_CUDA_INCLUDE=DIR and -DTANDEM_NCCL_INCLUDE=DIR, configure again "
      "and build");
}
#endif

}  // namespace

bool has_nccl() { return kHasNccl; }

std::unique_ptr<Group> make_gloo_group(const C10dGroupOptions& options) {
  return make_linked_member(meet_over_gloo(options));
}

std::unique_ptr<Group> make_nccl_group(const C10dGroupOptions& options, int device_index) {
  static MakeNccl* const make_nccl = load_nccl();  // a failure is thrown, and tried again by the next call
  LinkedMemberOptions member = meet_over_gloo(options);
  if (options.size > 1) {
    const BrokenPipeMask mask;
    member.device_backend = c10::intrusive_ptr<c10d::Backend>::reclaim(
        make_nccl(make_c10d_store(options.store->part("nccl")), options.rank, options.size, device_index));
  }
  return make_linked_member(std::move(member));
}

}  // namespace tandem::comm
