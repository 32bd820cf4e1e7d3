#include "tandem/net/message_server.h"

#include <optional>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/net/knocks.h"

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

// The request's own deadline, and the end of its member.
Limits limits_of(const Message& request, const std::stop_token& gone) {
  return {.deadline = request.patience < 0 ? Deadline::infinite()
                                           : Deadline::after(std::chrono::milliseconds(request.patience)),
          .stop = gone};
}

}  // namespace

// A member's connection and the two threads that serve it. The listener passes requests to the answerer by a queue of
// one. Whichever of the two notices the end hangs up, and so ends the other.
class MessageServer::ServedMember {
 public:
  ServedMember(Stream stream, int member, const Serve& serve, const Lost& lost)
      : serve_(serve),
        lost_(lost),
        connection_(std::move(stream), member, concat("member ", member)),
        answerer_(concat("serve-", member), [this](const std::stop_token&) { answer_all(); }),
        listener_(concat("hear-", member), [this](const std::stop_token& stop) { listen(stop); }) {}
  void tell(const Message& farewell) {
    {
      const MutexLock lock(waiting_);
      farewell_ = farewell;
    }
    say_farewell();
  }
  [[nodiscard]] int member() const { return connection_.peer(); }
  // Ends the connection. Returns when the loss has been told and no request of the member is being served.
  void cut() {
    connection_.hang_up();
    listener_.join();
    answerer_.join();
  }
  ~ServedMember() {
    gone_.request_stop();
    listener_.request_stop();
    requests_.close();
  }

 private:
  // The listener's loop. Its end stops the request that is being served, and tells the loss unless the server ends.
  void listen(const std::stop_token& stop) {
    std::string how;
    try {
      for (;;) {
        Message request = connection_.receive({.deadline = Deadline::infinite(), .stop = stop});
        if (!requests_.push(std::move(request), stop)) break;
      }
    } catch (const PeerLost& error) {
      how = error.what();
    } catch (const RunError& error) {
      if (!stop.stop_requested()) how = error.what();
    }
    gone_.request_stop();
    requests_.close();
    if (how.empty()) return;  // the server ends: an answer that is being sent goes first, and then the socket is closed
    connection_.hang_up();
    lost_(connection_.peer(), how);
  }

  // The answerer's loop.
  void answer_all() {
    const std::stop_token gone = gone_.get_token();
    while (const std::optional<Message> request = requests_.pop(gone)) {
      try {
        const std::optional<Message> answer = answer_to(*request, limits_of(*request, gone));
        if (!answer) return;
        const Bytes bytes = answer->bytes;
        {
          const MutexLock lock(sending_);
          connection_.send(answer->kind, -1, {&bytes, 1}, {.deadline = Deadline::infinite(), .stop = gone});
        }
        say_farewell();
      } catch (const RunError&) {
        connection_.hang_up();  // the listener notices, and tells
        return;
      }
    }
  }

  // Sends the farewell that waits. If another thread is sending, that thread sends the farewell afterwards. The loop
  // looks again because a farewell may come between the other thread's last look and its unlock.
  void say_farewell() {
    for (;;) {
      {
        const MutexLock lock(waiting_);
        if (!farewell_) return;
      }
      if (!sending_.try_lock()) return;
      try {
        send_farewell();
      } catch (const RunError&) {
        connection_.hang_up();  // the member is gone, or has not read for long
      }
      sending_.unlock();
    }
  }

  void send_farewell() TANDEM_REQUIRES(sending_) {
    std::optional<Message> farewell;
    {
      const MutexLock lock(waiting_);
      farewell = std::exchange(farewell_, std::nullopt);
    }
    if (!farewell) return;
    const Bytes bytes = farewell->bytes;
    connection_.send(farewell->kind, -1, {&bytes, 1}, {.deadline = Deadline::after({}), .stop = {}});
  }

  // Returns nothing when the end of the server or of the member cut the call short: the end of the connection tells it.
  std::optional<Message> answer_to(const Message& request, const Limits& limits) {
    try {
      return serve_(connection_.peer(), request, limits);
    } catch (const GroupAborted& error) {
      if (limits.stop.stop_requested()) return std::nullopt;
      return failure_message(error);
    } catch (const std::exception& error) {
      return failure_message(error);
    }
  }

  const Serve& serve_;
  const Lost& lost_;
  Connection connection_;
  Mutex sending_, waiting_;
  std::optional<Message> farewell_ TANDEM_GUARDED_BY(waiting_);
  std::stop_source gone_;
  BoundedQueue<Message> requests_{1};
  Worker answerer_, listener_;  // last
};

MessageServer::MessageServer(Access access, Serve serve, Lost lost)
    : serve_(std::move(serve)),
      lost_(std::move(lost)),
      listener_(access, "the variables of a run"),
      door_("message-server", [this](const std::stop_token& stop) { let_in(stop); }) {}

// The members are destroyed without the lock, since their threads may need it.
MessageServer::~MessageServer() {
  const MutexLock lock(mutex_);
  is_ending_ = true;
}

// The thread that accepts connections. A member that is gone stays in the list: its threads are joined when it comes
// back, or at the end.
void MessageServer::let_in(const std::stop_token& stop) {
  for (;;) {
    try {
      Door::Accepted accepted = listener_.accept({.deadline = Deadline::infinite(), .stop = stop});
      const int member = accepted.caller;
      for (const auto& former : members_)
        if (former->member() == member) former->cut();
      const MutexLock lock(mutex_);  // before its threads run, so that tell_all() misses no member that is answered
      std::erase_if(members_, [member](const auto& former) { return former->member() == member; });
      members_.push_back(std::make_unique<ServedMember>(std::move(accepted.stream), member, serve_, lost_));
    } catch (const GroupAborted&) {
      return;
    } catch (const RunError& error) {
      report_knock("the variables of a run", "a process", concat("finds no room: ", error.what()));
      pause(1s, {.stop = stop});
    }
  }
}

void MessageServer::tell_all(const std::exception& why) {
  const Message farewell = failure_message(why, kFarewell);
  const MutexLock lock(mutex_);
  if (is_ending_) return;
  for (const auto& member : members_) member->tell(farewell);
}

void MessageServer::shut_door() {
  door_.request_stop();  // first, since accept() on a listener that is shut returns at once, again and again
  listener_.shut();
}

// --- the client -----------------------------------------------------------------------------------------------------

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
