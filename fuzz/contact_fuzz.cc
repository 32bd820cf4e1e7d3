// Question: can any bytes, as the contact that a member has published, make a member that would dial it crash, or hold
// more than its bounds?
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tandem/base/error.h"
#include "tandem/net/contact.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const net::Contact contact = net::read_contact(text);
    const net::Place& place = contact.place;
    const bool is_local = !place.local.empty();
    if (contact.secret.empty() || is_local != place.addresses.empty() || is_local != (place.port == 0)) std::abort();
    if (place.local.size() > text.size() || place.addresses.size() > text.size() / 2) std::abort();
  } catch (const RunError& error) {
    if (std::string(error.what()).find("is no contact") == std::string::npos) std::abort();
  }
  return 0;
}
