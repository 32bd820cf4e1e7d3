#include "tandem/net/contact.h"

#include <sstream>
#include <string_view>

#include "tandem/base/digest/hmac.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::net {
namespace {

constexpr std::size_t kSecretBytes = 16;

// Words, with a blank between: the secret; then the port and the addresses, or "local" and the socket's name.
constexpr std::string_view kLocal = "local";

std::string text_of(const std::string& secret, const Place& place) {
  if (!place.local.empty()) return concat(secret, " ", kLocal, " ", place.local);
  return concat(secret, " ", std::to_string(place.port), " ", joined(place.addresses, {}, " "));
}

}  // namespace

Listener::Listener(Access access, const std::string& name, const std::string& network)
    : secret_(random_hex(kSecretBytes)),
      door_({.access = access, .local = {}, .port = 0, .network = network, .secret = secret_, .name = name}),
      contact_(text_of(secret_, door_.place())) {}

Stream dial(const std::string& contact, int member, const Limits& limits) {
  std::istringstream words = reader_of(contact);
  std::string secret, where;
  Place place;
  words >> secret >> where;
  if (where == kLocal) {
    words >> place.local;
  } else {
    place.port = parse_number<int>(where).value_or(0);
    for (std::string address; words >> address;) place.addresses.push_back(address);
  }
  if (secret.size() != 2 * kSecretBytes || (place.local.empty() && (place.addresses.empty() || place.port == 0)))
    throw RunError(concat("'", contact, "' is no contact"));
  try {
    return dial(place, secret, member, "a member of the run", limits);
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (const GroupAborted&) {
    throw;
  } catch (const RunError& error) {
    throw RunError(concat(error.what(), "; likely it has ended, or a firewall is between the hosts"));
  }
}

}  // namespace tandem::net
