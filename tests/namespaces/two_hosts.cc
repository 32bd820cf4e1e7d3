#include "tests/namespaces/two_hosts.h"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

namespace tandem::namespaces_test {
namespace {

constexpr const char* kCable = "cable";

// Runs a command of the shell; what it could not do.
std::optional<std::string> fault_of(const std::string& command) {
  const int status = std::system(command.c_str());  // NOLINT: nothing in the command comes from outside
  return status == 0 ? std::nullopt : std::optional(concat("'", command, "' ended with ", status));
}

}  // namespace

TwoHosts::TwoHosts()
    : holders_(2, [](int, const shm::Voice& voice) {
        const int failure = ::unshare(CLONE_NEWNET) == 0 ? 0 : errno;
        voice.say(concat(::getpid(), " ", failure, ";"));
        for (;;) ::pause();
      }) {
  for (int host = 0; host < 2; ++host) {
    TANDEM_CHECK(holders_.hears(host, ";"));
    int failure = 0;
    std::istringstream(holders_.said(host)) >> processes_.at(static_cast<std::size_t>(host)) >> failure;
    if (failure != 0) refusal_ = "no network namespace: " + std::generic_category().message(failure);
  }
  if (!refusal_) refusal_ = connect();
}

std::optional<std::string> TwoHosts::on(int host, const std::string& command) const {
  return fault_of(concat("nsenter -t ", process(host), " -n ip ", command));
}

std::optional<std::string> TwoHosts::connect() {
  auto fault = on(0, concat("link add ", kCable, " type veth peer name ", kCable, " netns ", processes_[1]));
  for (int host = 0; host < 2 && !fault; ++host) {
    fault = on(host, "link set lo up");
    if (!fault) fault = on(host, concat("address add ", address(host), "/24 dev ", kCable));
    if (!fault) fault = on(host, concat("link set ", kCable, " up"));
  }
  return fault;
}

std::string TwoHosts::address(int host) { return concat("192.0.2.", host + 1); }

void TwoHosts::enter(int host) const {
  const std::string file = concat("/proc/", processes_.at(static_cast<std::size_t>(host)), "/ns/net");
  const Descriptor network(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  TANDEM_CHECK(network.is_open() && ::setns(network.get(), CLONE_NEWNET) == 0, file);
}

void TwoHosts::cut() const { TANDEM_CHECK(!on(0, concat("link set ", kCable, " down"))); }
void TwoHosts::mend() const { TANDEM_CHECK(!on(0, concat("link set ", kCable, " up"))); }

std::int64_t bytes_sent() {
  std::ifstream devices("/proc/thread-self/net/dev");
  for (std::string line; std::getline(devices, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.find(kCable) == std::string::npos) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::int64_t value = 0;
    for (int column = 0; column < 9; ++column) numbers >> value;  // eight of what was received, then bytes sent
    return value;
  }
  TANDEM_CHECK(false, "no cable here");
  return 0;
}

}  // namespace tandem::namespaces_test
