#include "tandem/net/message_client.h"

#include "tandem/base/error.h"
#include "tandem/net/contact.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
constexpr auto kForTheServersError = 1s;

std::int64_t patience_of(const Limits& limits) {
  if (limits.deadline.is_infinite()) return -1;
  return std::chrono::ceil<std::chrono::milliseconds>(limits.deadline.remaining()).count();
}

Limits a_little_longer(const Limits& limits) {
  if (limits.deadline.is_infinite()) return limits;
  return {.deadline = Deadline::after(limits.deadline.remaining() + kForTheServersError), .stop = limits.stop};
}

}  // namespace

MessageClient::MessageClient(const ServerAddress& server, int member, const Limits& limits)
    : connection_(dial(server.contact, member, limits), server.member, server.name) {}

// Runs a step of a call. After a failure other than the server's own, no answer can be told from one of another
// request, so the connection ends.
template <typename Step>
Message MessageClient::attempt(const Step& step) {
  try {
    return step();
  } catch (const PeerLost&) {
    throw_farewell_or_rethrow();
  } catch (const RunError&) {
    hang_up();  // an answer that came later would be taken for that of another request
    throw;
  }
}

Message MessageClient::call(std::uint32_t kind, std::span<const Bytes> parts, const Limits& limits) {
  ask(kind, parts, limits);
  return await_answer(limits);
}

void MessageClient::ask(std::uint32_t kind, std::span<const Bytes> parts, const Limits& limits) {
  (void)attempt([&] {
    connection_.send(kind, patience_of(limits), parts, a_little_longer(limits));
    return Message{};
  });
}

Message MessageClient::await_answer(const Limits& limits) {
  Message answer = attempt([&] { return connection_.receive(a_little_longer(limits)); });
  if (answer.kind == kFarewell) hang_up();
  if (answer.kind == kFarewell || answer.kind == kFailure) throw_failure(answer);
  return answer;
}

// A server that is gone may have said why before. Its farewell is then in the socket's buffer, behind the loss.
void MessageClient::throw_farewell_or_rethrow() {
  Message farewell;
  try {
    farewell = connection_.receive({.deadline = Deadline::after({}), .stop = {}});
  } catch (const RunError&) {
    hang_up();
  }
  if (farewell.kind == kFarewell) throw_failure(farewell);
  throw;  // what attempt() caught
}

}  // namespace tandem::net
