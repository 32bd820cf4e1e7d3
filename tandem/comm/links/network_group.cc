#include "tandem/comm/links/network_group.h"

#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/library/shared_library.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/comm/links/broken_pipe_mask.h"
#include "tandem/comm/links/c10d_store.h"
#include "tandem/comm/links/linked_member.h"
#include "tandem/comm/store/store_value.h"
#include "tandem/device/device_set.h"
#include "tandem/net/mesh.h"

namespace tandem::comm {
namespace {

// Plan: check the options; open a door, and exchange Introductions through the store, which is also how missing ranks
// are found; connect each with each; connect devices with NCCL if asked for; hand the connections to a LinkedMember.

constexpr const char* kIntroduction = "introduction";

// The data that members exchange before they connect. Lines of text, in the order of text().
struct Introduction {
  std::string name, contact;

  [[nodiscard]] std::string text() const { return concat(name, "\n", contact); }
  static Introduction parse(const std::string& text) {
    std::vector<std::string> lines = parts_in(kIntroduction, text, '\n', 2);
    return {std::move(lines[0]), std::move(lines[1])};
  }
};

void check(const NetworkGroupOptions& options) {
  std::vector<std::string> faults;
  if (options.size < 1) faults.push_back(concat("network group: a size of ", options.size));
  if (options.rank < 0 || options.rank >= options.size)
    faults.push_back(concat("network group: rank ", options.rank, " of ", options.size));
  if (!options.names.empty() && std::ssize(options.names) != options.size)
    faults.push_back(concat("network group: ", options.names.size(), " names for ", options.size, " members"));
  if (options.store == nullptr && options.size > 1)
    faults.emplace_back("network group: no store to meet the others at");
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

LinkedMemberOptions meet_over_tcp(const NetworkGroupOptions& options) {
  check(options);
  const auto name_of = [&](int rank) {
    return options.names.empty() ? rank : options.names[static_cast<std::size_t>(rank)];
  };
  if (options.size == 1)
    return {.rank = 0, .names = {{name_of(0), process_name()}}, .ends = std::vector<net::Wire::Ends>(1)};
  net::Mesh mesh(options.store->access(), options.network, concat("rank ", name_of(options.rank)));
  const Introduction me{process_name(), mesh.contact()};
  LinkedMemberOptions member{.rank = options.rank};
  std::vector<std::string> contacts;
  for (const std::string& text :
       exchange(*options.store, kIntroduction, options.rank, options.size, me.text(), options.limits)) {
    const Introduction its = Introduction::parse(text);
    contacts.push_back(its.contact);
    member.names.push_back({name_of(static_cast<int>(member.names.size())), its.name});
  }
  member.ends = mesh.connect(options.rank, contacts, options.limits);
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

std::unique_ptr<Group> make_tcp_group(const NetworkGroupOptions& options) {
  return make_linked_member(meet_over_tcp(options));
}

std::unique_ptr<Group> make_nccl_group(const NetworkGroupOptions& options, int device_index) {
  static MakeNccl* const make_nccl = load_nccl();  // a failure is thrown, and tried again by the next call
  LinkedMemberOptions member = meet_over_tcp(options);
  if (options.size > 1) {
    const BrokenPipeMask mask;
    member.device_backend = c10::intrusive_ptr<c10d::Backend>::reclaim(
        make_nccl(make_c10d_store(options.store->part("nccl")), options.rank, options.size, device_index));
  }
  return make_linked_member(std::move(member));
}

}  // namespace tandem::comm
