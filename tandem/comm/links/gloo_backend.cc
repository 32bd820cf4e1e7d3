#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/links/c10d_backends.h"
#include "tandem/comm/links/c10d_group.h"

#ifdef TANDEM_GLOO
#include <net/if.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace tandem::comm {

bool has_gloo() { return true; }

namespace {

using Gloo = c10d::ProcessGroupGloo;

// Returns Gloo's transport for an interface or, if there is none of that name, for an address.
std::shared_ptr<gloo::transport::Device> device_for(const std::string& network) {
  try {
    return ::if_nametoindex(network.c_str()) != 0 ? Gloo::createDeviceForInterface(network)
                                                  : Gloo::createDeviceForHostname(network);
  } catch (const std::exception& error) {
    throw ConfigError(concat("Gloo cannot listen on '", network, "': ", error.what(),
                             "; name an interface or an address of this host, as `ip address` lists them"));
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    const std::string& network, std::chrono::milliseconds patience) {
  const auto own = Gloo::Options::create(patience);
  own->devices.push_back(device_for(network));
  own->threads = 1;  // these threads run Gloo's own collectives, which are not used
  try {
    return c10::make_intrusive<Gloo>(store, rank, size, own);
  } catch (const std::exception& error) {
    throw RunError(concat("rank ", rank, " of ", size, " cannot connect to the others over '", network,
                          "': ", error.what(),
                          "; likely another rank failed while starting, a firewall is between them, or their "
                          "addresses are of different networks: choose one that all of them reach"));
  }
}

}  // namespace tandem::comm

#else

namespace tandem::comm {

bool has_gloo() { return false; }

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                    const std::string&, std::chrono::milliseconds) {
  throw ConfigError(
      "this build has no Gloo: its headers were not found when it was configured; install them (Debian: libgloo-dev), "
      "configure again and build");
}

}  // namespace tandem::comm

#endif
