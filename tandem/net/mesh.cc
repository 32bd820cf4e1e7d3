#include "tandem/net/mesh.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::net {
namespace {

// A caller's number says which member it is, and which of its connections this will be.
int caller_of(int rank, Channel channel) { return kChannels * rank + (channel == Channel::kPayloads ? 1 : 0); }

Stream& end_of(std::vector<Wire::Ends>& ends, int caller) {
  Wire::Ends& of_member = ends[static_cast<std::size_t>(caller / kChannels)];
  return caller % kChannels == 0 ? of_member.messages : of_member.payloads;
}

std::string missing_from(std::vector<Wire::Ends>& ends, int rank) {
  std::vector<int> missing;
  for (int other = rank + 1; other < static_cast<int>(ends.size()); ++other) {
    const Wire::Ends& of_other = ends[static_cast<std::size_t>(other)];
    if (!of_other.messages.is_open() || !of_other.payloads.is_open()) missing.push_back(other);
  }
  return joined(missing);
}

}  // namespace

Mesh::Mesh(Access access, const std::string& network, const std::string& name)
    : listener_(network.empty() ? access : Access(Reach::kEverywhere, access.traffic), name, network) {}

// Each member calls those before it, and then lets in those behind it. The first lets others in at once, so all come to
// that in turn.
std::vector<Wire::Ends> Mesh::connect(int rank, const std::vector<std::string>& contacts, const Limits& limits) {
  const int size = static_cast<int>(contacts.size());
  std::vector<Wire::Ends> ends(contacts.size());
  for (int other = 0; other < rank; ++other) {
    for (const Channel channel : {Channel::kMessages, Channel::kPayloads}) {
      const int there = caller_of(other, channel);
      end_of(ends, there) = dial(contacts[static_cast<std::size_t>(other)], caller_of(rank, channel), limits);
    }
  }
  for (int left = kChannels * (size - 1 - rank); left > 0;) {
    std::optional<Door::Accepted> accepted;
    try {
      accepted = listener_.accept(limits);
    } catch (const DeadlineExceeded&) {
      throw DeadlineExceeded(concat("member ", rank, " of ", size, " waited for the connections of member(s) ",
                                    missing_from(ends, rank), "; likely they failed while starting"));
    }
    const bool is_expected = accepted->caller >= kChannels * (rank + 1) && accepted->caller < kChannels * size;
    if (!is_expected || end_of(ends, accepted->caller).is_open()) continue;  // of a member that came twice
    end_of(ends, accepted->caller) = std::move(accepted->stream);
    --left;
  }
  return ends;
}

}  // namespace tandem::net
