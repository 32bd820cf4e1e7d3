// Question: can a stranger, at a door or behind one, or somebody between two members, be let in, or make the greeting
// crash or hang?
//
// The first byte chooses. 0: the bytes come to a door, in pieces. 1: to a caller. 2: between a door and a caller with
// one secret, where each pair of bytes says which byte of what they say is changed, and how: then none of the two may
// believe the other, unless nothing was changed. 3: the two have different secrets.
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

#include "fuzz/socket_pair.h"
#include "tandem/net/greeting.h"

namespace {

using namespace tandem;
using net::AtTheDoor, net::Calling, net::Stage;
using Bytes = std::span<const std::byte>;

bool has_ended(Stage stage) { return stage == Stage::kRefused || stage == Stage::kGone; }

// A code of 256 bits is not guessed, and so neither end is ever convinced.
template <typename End>
void talk_to(End& end, const SocketPair& sockets, Bytes bytes) {
  Stage stage = Stage::kPending;
  in_pieces(bytes, [&](Bytes piece) {
    if (has_ended(stage)) return;
    sockets.send(piece);
    stage = end.go_on();
    if (stage == Stage::kAdmitted || (has_ended(stage) && end.why().empty())) std::abort();
  });
  if (has_ended(stage)) return;
  ::shutdown(sockets.ours.get(), SHUT_WR);
  if (!has_ended(end.go_on())) std::abort();
}

// Carries what one has said to the other, with changes. `at` counts the bytes of both directions.
bool carry(const SocketPair& from, const SocketPair& to, Bytes changes, std::size_t& at) {
  std::array<std::byte, 4096> said{};
  const ssize_t got = ::recv(from.ours.get(), said.data(), said.size(), MSG_DONTWAIT);
  bool is_changed = false;
  for (ssize_t i = 0; i < got; ++i, ++at) {
    for (std::size_t c = 0; c + 1 < changes.size(); c += 2) {
      if (std::to_integer<std::size_t>(changes[c]) != at) continue;
      said[static_cast<std::size_t>(i)] ^= changes[c + 1];
      is_changed = is_changed || changes[c + 1] != std::byte{0};
    }
  }
  if (got > 0) to.send(Bytes(said).first(static_cast<std::size_t>(got)));
  return is_changed;
}

// Bytes that two changes restore count as changed: then nothing is asked of the outcome.
void stand_between(Bytes changes, const std::string& of_door, const std::string& of_caller) {
  const SocketPair at_door, at_caller;
  AtTheDoor door(at_door.theirs.get(), net::key_of(of_door), net::Traffic::kOpen);
  Calling caller(at_caller.theirs.get(), 7, net::key_of(of_caller));
  bool is_changed = false, is_kept = false;
  std::size_t at = 0;
  Stage its = Stage::kPending, mine = Stage::kPending;
  for (int turn = 0; turn < 4; ++turn) {
    is_changed = carry(at_door, at_caller, changes, at) || is_changed;
    if (mine == Stage::kPending) mine = caller.go_on();
    if (mine == Stage::kAdmitted && !std::exchange(is_kept, true)) (void)caller.keep();
    is_changed = carry(at_caller, at_door, changes, at) || is_changed;
    if (its == Stage::kPending) its = door.go_on();
  }
  const bool are_members = of_door == of_caller;
  if (!are_members && (mine == Stage::kAdmitted || its == Stage::kAdmitted)) std::abort();
  if (are_members && !is_changed && (mine != Stage::kAdmitted || its != Stage::kAdmitted)) std::abort();
  if (its == Stage::kAdmitted && door.caller() != 7) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const SocketPair sockets;
  switch (data[0] % 4) {
    case 0: {
      AtTheDoor door(sockets.theirs.get(), net::key_of("the run's secret"), net::Traffic::kOpen);
      talk_to(door, sockets, bytes);
      break;
    }
    case 1: {
      Calling caller(sockets.theirs.get(), 1, net::key_of("the run's secret"));
      talk_to(caller, sockets, bytes);
      break;
    }
    case 2:
      stand_between(bytes, "the run's secret", "the run's secret");
      break;
    default:
      stand_between(bytes, "the run's secret", "another secret");
  }
  return 0;
}
