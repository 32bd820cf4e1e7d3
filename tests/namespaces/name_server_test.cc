// Ranks that find each other ask no name server for the name of an address: one that does not answer would take seconds
// of each connection, and the connection with it (Note [No name server is asked]).
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "tandem/base/testing/temporary_folder.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::namespaces_test {
namespace {

using shm::ProcessWorld;
using shm::Voice;

sockaddr_in at(const char* address, int port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address, &name.sin_addr);
  return name;
}

// The only name server of this process and of those that it starts, on a network of their own. It never answers.
class SilentNameServer {
 public:
  explicit SilentNameServer(const std::filesystem::path& scratch) {
    const auto file = scratch / "resolv.conf";
    std::ofstream(file) << "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
    if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(file.c_str(), "/etc/resolv.conf", nullptr, MS_BIND, nullptr) != 0) {
      refusal_ = std::generic_category().message(errno);
      return;
    }
    TANDEM_CHECK(std::system("ip link set lo up") == 0);  // NOLINT: nothing in the command comes from outside
    socket_ = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));  // of the new network
    const sockaddr_in name = at("127.0.0.1", 53);
    TANDEM_CHECK(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  }

  [[nodiscard]] const std::string& refusal() const { return refusal_; }

  /// Since it was asked last.
  int questions() {
    std::array<char, 512> question{};
    int count = 0;
    while (::recv(socket_.get(), question.data(), question.size(), MSG_DONTWAIT) > 0) ++count;
    return count;
  }

 private:
  Descriptor socket_;
  std::string refusal_;
};

void look_up_a_name() {
  const sockaddr_in name = at("198.51.100.1", 9);
  std::array<char, NI_MAXHOST> host{};
  (void)::getnameinfo(reinterpret_cast<const sockaddr*>(&name), sizeof(name), host.data(), host.size(), nullptr, 0, 0);
}

void find_each_other(int rank, const Voice& voice) {
  comm::WorldOptions options;
  options.backend = comm::Backend::kTcp;
  const comm::World world = comm::open_world({.launcher = comm::Launcher::kVariables,
                                              .rank = rank,
                                              .world_size = 2,
                                              .host_name = "here",
                                              .master = {.address = "127.0.0.1", .port = 29500}},
                                             options);
  world.group->barrier(within(std::chrono::minutes(1)));
  voice.say("together");
  world.group->barrier(within(std::chrono::minutes(1)));
}

TEST(NameServerTest, RanksThatFindEachOtherAskNone) {
  const TemporaryFolder scratch;
  ProcessWorld alone(1, [&](int, const Voice& voice) {
    SilentNameServer server(scratch.path());
    if (!server.refusal().empty()) return voice.say("refused: " + server.refusal());
    ProcessWorld ranks(2, find_each_other);
    for (const std::string& said : ranks.outcomes()) voice.say(said + ", ");
    voice.say(concat(server.questions(), " questions, "));
    look_up_a_name();
    voice.say(server.questions() > 0 ? "and hears them" : "and is deaf");
  });
  const std::string outcome = alone.outcome(0);
  if (outcome.starts_with("refused")) GTEST_SKIP() << outcome;
  EXPECT_EQ(outcome, "together, together, 0 questions, and hears them");
}

}  // namespace
}  // namespace tandem::namespaces_test
