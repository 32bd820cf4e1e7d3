#include "tandem/comm/store/tcp_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <type_traits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/comm/links/c10d_backends.h"
#include "tandem/concurrency/poll_until.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;

// Note [Waiting is looking again]
// c10d's wait cannot be stopped, blocks the connection for other threads, and prints warnings when it ends early. So
// get() polls. Its pauses grow to a length at which a thousand ranks may poll one server.
constexpr Clock::duration kFirstPause = 1ms, kLongestPause = 64ms;

// The state that all parts of one connection share.
struct Connection {
  std::string name;
  std::string address;  // the server's, numeric; empty for a store within this process
  std::atomic<bool> is_lost{false};
};

// A client of c10d. Prefixes are part of the keys.
class SharedStore final : public Store {
 public:
  SharedStore(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Connection> connection)
      : store_(std::move(store)), connection_(std::move(connection)) {}

  void set(const std::string& key, const std::string& value) override {
    ask("setting", key, [&] { store_->set(key, value); });
    // c10d's set() does not wait for an answer, so it would not notice that the store is gone. find() waits for one.
    (void)find(key);
  }

  std::string get(const std::string& key, const Limits& limits) override {
    for (Clock::duration span = kFirstPause;; span = std::min(2 * span, kLongestPause)) {
      if (std::optional<std::string> value = find(key)) return *std::move(value);
      const std::string waited = concat(name(), ": nobody set '", key, "'");
      if (limits.stop.stop_requested()) throw GroupAborted(waited + " before the wait was stopped");
      if (limits.deadline.expired()) throw DeadlineExceeded(waited + " before the deadline");
      pause(span, limits);
    }
  }

  std::optional<std::string> find(const std::string& key) override {
    return ask("looking for", key, [&]() -> std::optional<std::string> {
      if (!store_->check({key})) return std::nullopt;
      return store_->get_to_str(key);
    });
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return ask("adding to", key, [&] { return store_->add(key, amount); });
  }

  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    TANDEM_CHECK(!desired.empty() && desired != expected);
    std::string now = ask("setting", key, [&] { return store_->compareSet(key, expected, desired); });
    if (now == expected) now.clear();  // c10d returns `expected` if the key is not set
    return now;
  }

  std::unique_ptr<Store> part(const std::string& prefix) override {
    return std::make_unique<SharedStore>(c10::make_intrusive<c10d::PrefixStore>(prefix, store_), connection_);
  }
  [[nodiscard]] std::string name() const override { return connection_->name; }

  [[nodiscard]] C10dStore underlying() const { return {store_, connection_->address}; }

 private:
  // Makes one call of c10d's client. An incomplete answer leaves the rest of it in the connection, so after one failure
  // no answer can be trusted any more and all later calls fail.
  template <typename Question>
  std::invoke_result_t<Question> ask(const char* doing, const std::string& key, const Question& question) {
    if (connection_->is_lost) throw RunError(concat(name(), " was lost before ", doing, " '", key, "'"));
    try {
      return question();
    } catch (const c10::Error& error) {
      connection_->is_lost = true;
      throw RunError(concat(name(), " was lost while ", doing, " '", key, "': ", error.what_without_backtrace(),
                            "; likely its host (rank 0, or the launcher) has ended or was stopped, or the network to "
                            "it is cut: the first failure is in the output of another rank"));
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::shared_ptr<Connection> connection_;
};

// Makes c10d's client, and its server if `options` say so, with a time limit for each answer.
std::unique_ptr<Store> make_store(const MutexLock& turn, const std::string& address,
                                  const c10d::TCPStoreOptions& options, const std::string& name,
                                  std::chrono::milliseconds reply_limit) {
  auto connection = std::make_shared<Connection>();
  connection->name = "the store at " + name;
  connection->address = address;
  c10::intrusive_ptr<c10d::TCPStore> store;
  try {
    limit_replies(turn, {address, options.port}, reply_limit,
                  [&] { store = c10::make_intrusive<c10d::TCPStore>(address, options); });
  } catch (const c10::Error& error) {
    throw RunError(concat("cannot use ", connection->name, ": ", error.what_without_backtrace(),
                          "; likely what listens there is no store, or its host is ending, or waits for a name server "
                          "that does not answer: it looks up who connects, so add the ranks to its /etc/hosts"));
  }
  return std::make_unique<SharedStore>(std::move(store), std::move(connection));
}

c10d::TCPStoreOptions options_for(int port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  return options;
}

// At a loopback address only processes of this host can connect. This also avoids a delay: c10d's server looks up the
// name of each address that connects, which takes seconds where no name server answers, but loopback is in /etc/hosts.
Reach reach_of(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") ? Reach::kThisHost : Reach::kEverywhere;
}

}  // namespace

C10dStore c10d_store_of(Store& store) {
  if (const auto* shared = dynamic_cast<const SharedStore*>(&store)) {
    if (C10dStore found = shared->underlying(); !found.address.empty()) return found;
  }
  throw ConfigError(concat("ranks cannot find each other's addresses through ", store.name(),
                           ": give the group one of open_store() or connect_to_store()"));
}

// Binds the port itself and passes the listening socket to c10d, for an error that says what to do when it is in use.
HostedStore host_store(int port, Reach reach) {
  const MutexLock turn(connecting());
  Listener listener = listen_on(port, reach);
  c10d::TCPStoreOptions options = options_for(listener.port);
  options.isServer = true;
  options.masterListenFd = listener.socket.release();  // the server closes it
  auto store = make_store(turn, "127.0.0.1", options, concat("port ", listener.port, " of this process"), kReplyLimit);
  return {std::move(store), listener.port};
}

std::unique_ptr<Store> connect_to_store(const Endpoint& endpoint, const Limits& limits,
                                        std::chrono::milliseconds reply_limit) {
  const std::string address = await_listener(endpoint, limits);
  c10d::TCPStoreOptions options = options_for(endpoint.port);
  options.timeout = std::max(reply_limit, std::chrono::milliseconds(1s));  // c10d counts whole seconds; it listens
  return make_store(MutexLock(connecting()), address, options, concat(endpoint.address, ":", endpoint.port),
                    reply_limit);
}

std::unique_ptr<Store> make_memory_store() {
  auto connection = std::make_shared<Connection>();
  connection->name = "the store of this process";
  return std::make_unique<SharedStore>(c10::make_intrusive<c10d::HashStore>(), std::move(connection));
}

std::string run_part(const std::string& run_id, int restarts, int generation) {
  return concat("tandem/", run_id, "/", restarts, "/", generation);
}

std::unique_ptr<Store> open_store(const LauncherEnvironment& me, int generation, const Limits& limits) {
  if (me.world_size == 1) return make_memory_store();
  const std::unique_ptr<Store> store = me.rank == 0 && !me.launcher_hosts_store
                                           ? host_store(me.master.port, reach_of(me.master.address)).store
                                           : connect_to_store(me.master, limits);
  return store->part(run_part(me.run_id, me.restart_count, generation));
}

}  // namespace tandem::comm
