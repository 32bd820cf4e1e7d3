#include "tandem/net/contact.h"

#include <algorithm>
#include <functional>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "tandem/base/digest/hmac.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::net {
namespace {

constexpr std::size_t kSecretBytes = 16;
constexpr std::size_t kLongestContact = 64 * 1024, kMostAddresses = 1000, kMostLocalBytes = 100, kMostShown = 100;
constexpr int kMostPort = 65535;

// Words, with a blank between: the secret; then the port and the addresses, or "local" and the socket's name.
constexpr std::string_view kLocal = "local";

std::string text_of(const std::string& secret, const Place& place) {
  if (!place.local.empty()) return concat(secret, " ", kLocal, " ", place.local);
  const auto told = std::span(place.addresses).first(std::min(place.addresses.size(), kMostAddresses));
  return concat(secret, " ", std::to_string(place.port), " ", joined(told, std::identity(), " "));
}

}  // namespace

Listener::Listener(Access access, const std::string& name, const std::string& network)
    : secret_(random_hex(kSecretBytes)),
      door_({.access = access, .local = {}, .port = 0, .network = network, .secret = secret_, .name = name}),
      contact_(text_of(secret_, door_.place())) {}

Contact read_contact(const std::string& text) {
  const RunError fault(concat("'", printable(std::string_view(text).substr(0, kMostShown)), "' is no contact"));
  if (text.size() > kLongestContact) throw fault;
  std::istringstream words = reader_of(text);
  Contact found;
  std::string where;
  words >> found.secret >> where;
  if (found.secret.size() != 2 * kSecretBytes) throw fault;
  if (where == kLocal) {
    words >> found.place.local;
    if (found.place.local.empty() || found.place.local.size() > kMostLocalBytes) throw fault;
  } else {
    found.place.port = parse_number<int>(where).value_or(0);
    for (std::string address; words >> address;) found.place.addresses.push_back(address);
    const std::vector<std::string>& addresses = found.place.addresses;
    if (found.place.port < 1 || found.place.port > kMostPort || addresses.empty() || addresses.size() > kMostAddresses)
      throw fault;
  }
  if (!(words >> std::ws).eof()) throw fault;
  return found;
}

Stream dial(const std::string& contact, int member, const Limits& limits) {
  const auto [secret, place] = read_contact(contact);
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
