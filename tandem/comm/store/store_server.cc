#include "tandem/comm/store/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/store_request.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/concurrency/wake_event.h"
#include "tandem/net/knocks.h"

namespace tandem::comm {
namespace {

// A member that asks and does not read the answers is cut off.
constexpr std::size_t kMostUnread = std::size_t{64} << 20;

net::Message message_with(std::uint32_t kind, const std::string& text) {
  net::Message message{.kind = kind};
  const auto bytes = std::as_bytes(std::span(text));
  message.bytes.assign(bytes.begin(), bytes.end());
  return message;
}

net::Message found(const std::optional<std::string>& value) {
  return value ? message_with(kValue, *value) : message_with(kNoValue, "");
}

}  // namespace

// A member's connection: what it has sent, and answers that its socket did not take yet.
struct StoreServer::Client {
  explicit Client(net::Stream taken) : stream(std::move(taken)) {}

  net::Stream stream;
  net::Inbox inbox{kMostRequestBytes};
  std::vector<std::byte> answers{};

  // Sends what the socket takes. Returns false when the member is gone, or does not read.
  bool flush() {
    std::size_t taken = 0;
    while (taken < answers.size()) {
      const ssize_t sent = stream.write(std::span(answers).subspan(taken));
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (sent < 0 && errno != EINTR) return false;
      taken += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    }
    answers.erase(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(taken));
    return answers.size() <= kMostUnread;
  }
};

StoreServer::StoreServer(std::shared_ptr<StoreMap> values, net::DoorOptions door)
    : values_(std::move(values)),
      door_(std::move(door)),
      wake_(make_wake_event("the store")),
      answerer_("store", [this](const std::stop_token& stop) { answer_all(stop); }),
      doorkeeper_("store-door", [this](const std::stop_token& stop) { let_in(stop); }) {}

StoreServer::~StoreServer() {
  answerer_.request_stop();
  doorkeeper_.request_stop();
  wake(wake_);
}

// A process without a free descriptor says so, and lets nobody else in until it has one.
void StoreServer::let_in(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      net::Door::Accepted accepted = door_.accept({.deadline = Deadline::infinite(), .stop = stop});
      const MutexLock lock(mutex_);
      let_in_.push_back(std::move(accepted.stream));
    } catch (const GroupAborted&) {
      return;
    } catch (const RunError& error) {
      net::report_knock("the store", "a process", concat("finds no room: ", error.what()));
      pause(std::chrono::seconds(1), {.stop = stop});
      continue;
    }
    wake(wake_);
  }
}

void StoreServer::take_new(std::vector<std::unique_ptr<Client>>& clients) {
  eventfd_t count = 0;
  (void)::eventfd_read(wake_.get(), &count);
  const MutexLock lock(mutex_);
  for (net::Stream& stream : let_in_) {
    auto client = std::make_unique<Client>(std::move(stream));
    if (serve(*client)) clients.push_back(std::move(client));  // a question may have come with the end of its greeting
  }
  let_in_.clear();
}

void StoreServer::answer_all(const std::stop_token& stop) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<pollfd> waits;
  while (!stop.stop_requested()) {
    waits.assign(1, {wake_.get(), POLLIN, 0});
    for (const auto& client : clients)
      waits.push_back({client->stream.number(), static_cast<short>(client->answers.empty() ? POLLIN : POLLOUT), 0});
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR)
      throw RunError(concat("poll: ", std::generic_category().message(errno)));
    std::vector<std::unique_ptr<Client>> here;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (waits[i + 1].revents == 0 || serve(*clients[i])) here.push_back(std::move(clients[i]));
    }
    clients = std::move(here);
    if (waits.front().revents != 0) take_new(clients);
  }
}

// Answers all that one client has asked: an encrypted stream may hold questions of which its socket does not tell any
// more. Returns false when it is
// gone, or sent something else.
bool StoreServer::serve(Client& client) {
  if (!client.answers.empty()) return client.flush();
  bool is_here = true;
  for (bool has_asked = true; is_here && has_asked && client.answers.size() <= kMostUnread;) {
    is_here = client.inbox.read_from(client.stream);
    has_asked = false;
    while (const std::optional<net::Message> question = client.inbox.next()) {
      const std::vector<std::byte> answer = net::bytes_of(answer_to(*question));
      client.answers.insert(client.answers.end(), answer.begin(), answer.end());
      has_asked = true;
    }
  }
  return client.flush() && is_here;
}

net::Message StoreServer::answer_to(const net::Message& question) {
  try {
    const StoreRequest request = request_of(question);
    switch (request.kind) {
      case StoreRequest::Kind::kSet:
        values_->set(request.key, request.value);
        return message_with(kValue, "");
      case StoreRequest::Kind::kFind:
        return found(values_->find(request.key));
      case StoreRequest::Kind::kAdd:
        return message_with(kValue, std::to_string(values_->add(request.key, request.amount)));
      case StoreRequest::Kind::kCompareSet:
        break;
    }
    return message_with(kValue, values_->compare_set(request.key, request.expected, request.value));
  } catch (const RunError& error) {
    return net::failure_message(error);
  }
}

}  // namespace tandem::comm
