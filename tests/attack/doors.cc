// Holds one of the doors of a run open, and comes to it as a member: so that strangers find each door long enough to
// knock in every way (attack_test.py). A run passes some of its doors within milliseconds.
//
//   doors host KIND NAME        KIND: store, local-store, meeting, server, local-server, mesh or local-mesh
//   doors come KIND CONTACT     CONTACT: the last line of host
//
// `host` prints who may come where, waits for one member, and then prints what that member brought. The secret of a
// store is in TANDEM_RUN_SECRET.
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <latch>
#include <string>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/net/mesh.h"
#include "tandem/net/message_server.h"
#include "tandem/shm/meeting.h"

namespace {

using namespace tandem;

constexpr const char* kBrought = "what the member brought";

Limits patience() { return {.deadline = Deadline::after(std::chrono::seconds(100)), .stop = {}}; }

net::Reach reach_of(const std::string& kind) {
  return kind.starts_with("local-") ? net::Reach::kThisHost : net::Reach::kEverywhere;
}

std::string secret() {
  const char* const given = std::getenv("TANDEM_RUN_SECRET");
  return given == nullptr ? "" : given;
}

void open(const std::string& contact) { std::cout << contact << std::endl; }

comm::StorePlace store_at(const std::string& kind, int port) {
  return {.endpoint = {"127.0.0.1", port}, .reach = reach_of(kind), .secret = secret()};
}

shm::MeetingOptions meeting_as(int rank, const std::string& key) {
  return {.rank = rank, .size = 2, .key = key, .limits = patience()};
}

std::string host(const std::string& kind, const std::string& name) {
  if (kind.ends_with("store")) {
    const comm::HostedStore hosted = comm::host_store(store_at(kind, 0));
    open(concat(hosted.place.endpoint.port));
    return hosted.store->get("word", patience());
  }
  if (kind == "meeting") {
    open(name);
    return shm::meet(meeting_as(0, name)).region->control().size == 2 ? kBrought : "";
  }
  if (kind.ends_with("server")) {
    std::latch has_left(1);
    std::string brought;
    net::MessageServer server(
        reach_of(kind),
        [&](int, const net::Message& request, const Limits&) {
          brought.assign(reinterpret_cast<const char*>(request.bytes.data()), request.bytes.size());
          return net::Message{.kind = 1};
        },
        [&](int, const std::string&) { has_left.count_down(); });
    open(server.contact());
    has_left.wait();
    return brought;
  }
  net::Mesh mesh(reach_of(kind), "", name);
  open(mesh.contact());
  return mesh.connect(0, {mesh.contact(), ""}, patience())[1].messages.is_open() ? kBrought : "";
}

void come(const std::string& kind, const std::string& contact) {
  if (kind.ends_with("store")) {
    const int port = parse_number<int>(contact).value_or(0);
    comm::connect_to_store(store_at(kind, port), patience())->set("word", kBrought);
  } else if (kind == "meeting") {
    (void)shm::meet(meeting_as(1, contact));
  } else if (kind.ends_with("server")) {
    net::MessageClient client({.contact = contact, .member = 0, .name = "the server"}, 1, patience());
    const net::Bytes bytes = std::as_bytes(std::span(std::string_view(kBrought)));
    (void)client.call(1, {&bytes, 1}, patience());
  } else {
    net::Mesh mesh(reach_of(kind), "", "the member's");
    (void)mesh.connect(1, {contact, mesh.contact()}, patience());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) throw ConfigError("doors host KIND NAME, or doors come KIND CONTACT");
  const std::string role = argv[1], kind = argv[2], word = argv[3];
  if (role == "host") {
    std::cout << host(kind, word) << std::endl;
  } else {
    come(kind, word);
  }
  return 0;
} catch (const ConfigError& error) {
  std::cerr << "doors: " << error.what() << "\n";
  return 2;
} catch (const std::exception& error) {
  std::cerr << "doors: failed: " << error.what() << "\n";
  return 3;
}
