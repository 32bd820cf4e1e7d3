#include "tandem/comm/store/run_store.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/digest/hmac.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/store_map.h"
#include "tandem/comm/store/store_request.h"
#include "tandem/comm/store/store_server.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/net/door.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;

// Note [Waiting is looking again]
// A wait looks whether the value is there, again and again: so it can be stopped, and does not block the connection for
// other threads. Its pauses grow to a length at which a thousand ranks may ask one server.
constexpr Clock::duration kFirstPause = 1ms, kLongestPause = 64ms;
constexpr Clock::duration kBetweenAttempts = 50ms;

// What both stores have in common: the wait.
class WaitingStore : public Store {
 public:
  std::string get(const std::string& key, const Limits& limits) final {
    for (Clock::duration span = kFirstPause;; span = std::min(2 * span, kLongestPause)) {
      if (std::optional<std::string> value = find(key)) return *std::move(value);
      const std::string waited = concat(name(), ": nobody set '", key, "'");
      if (limits.stop.stop_requested()) throw GroupAborted(waited + " before the wait was stopped");
      if (limits.deadline.expired()) throw DeadlineExceeded(waited + " before the deadline");
      pause(span, limits);
    }
  }
};

std::string joined_key(const std::string& prefix, const std::string& key) { return concat(prefix, "/", key); }

// A store of this process. `server` answers those of others; null where there are none.
class OwnStore final : public WaitingStore {
 public:
  OwnStore(std::shared_ptr<StoreMap> values, std::shared_ptr<StoreServer> server, net::Access access, std::string name,
           std::string prefix)
      : values_(std::move(values)),
        server_(std::move(server)),
        access_(access),
        name_(std::move(name)),
        prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override { values_->set(whole(key), value); }
  std::optional<std::string> find(const std::string& key) override { return values_->find(whole(key)); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return values_->add(whole(key), amount); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    TANDEM_CHECK(!desired.empty() && desired != expected);
    return values_->compare_set(whole(key), expected, desired);
  }
  std::unique_ptr<Store> part(const std::string& prefix) override {
    return std::make_unique<OwnStore>(values_, server_, access_, name_, whole(prefix));
  }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] net::Access access() const override { return access_; }

 private:
  [[nodiscard]] std::string whole(const std::string& key) const { return joined_key(prefix_, key); }

  const std::shared_ptr<StoreMap> values_;
  const std::shared_ptr<StoreServer> server_;
  const net::Access access_;
  const std::string name_, prefix_;
};

// The connection that all parts of a store share.
struct SharedConnection {
  SharedConnection(net::Stream stream, std::string name_of_store, net::Access of_run, std::chrono::milliseconds limit)
      : name(std::move(name_of_store)),
        access(of_run),
        reply_limit(limit),
        connection(std::move(stream), 0, "its host") {}

  const std::string name;
  const net::Access access;
  const std::chrono::milliseconds reply_limit;
  Mutex mutex;
  net::Connection connection TANDEM_GUARDED_BY(mutex);
  bool is_lost TANDEM_GUARDED_BY(mutex) = false;
};

class RemoteStore final : public WaitingStore {
 public:
  RemoteStore(std::shared_ptr<SharedConnection> shared, std::string prefix)
      : shared_(std::move(shared)), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override {
    (void)ask("setting", key, {.kind = StoreRequest::Kind::kSet, .value = value});
  }
  std::optional<std::string> find(const std::string& key) override {
    return ask("looking for", key, {.kind = StoreRequest::Kind::kFind});
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const auto sum = ask("adding to", key, {.kind = StoreRequest::Kind::kAdd, .amount = amount});
    const std::optional<std::int64_t> number = parse_number<std::int64_t>(sum.value_or(""));
    if (!number) throw RunError(concat(name(), " answered with no number when it added to '", key, "'"));
    return *number;
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    TANDEM_CHECK(!desired.empty() && desired != expected);
    return ask("setting", key, {.kind = StoreRequest::Kind::kCompareSet, .value = desired, .expected = expected})
        .value_or("");
  }
  std::unique_ptr<Store> part(const std::string& prefix) override {
    return std::make_unique<RemoteStore>(shared_, joined_key(prefix_, prefix));
  }
  [[nodiscard]] std::string name() const override { return shared_->name; }
  [[nodiscard]] net::Access access() const override { return shared_->access; }

 private:
  // After one failure no answer can be told from one to an earlier question, so all later calls fail.
  std::optional<std::string> ask(const char* doing, const std::string& key, StoreRequest request) {
    request.key = joined_key(prefix_, key);
    const net::Message question = message_of(request);
    const net::Bytes bytes = question.bytes;
    const MutexLock lock(shared_->mutex);
    if (shared_->is_lost) throw RunError(concat(name(), " was lost before ", doing, " '", key, "'"));
    net::Message answer;
    try {
      const Limits limits{.deadline = Deadline::after(shared_->reply_limit), .stop = {}};
      shared_->connection.send(question.kind, -1, {&bytes, 1}, limits);
      answer = shared_->connection.receive(limits);
    } catch (const RunError& error) {
      shared_->is_lost = true;
      throw RunError(concat(name(), " was lost while ", doing, " '", key, "': ", error.what(),
                            "; likely its host (rank 0, or the launcher) has ended or was stopped, or the network to "
                            "it is cut: the first failure is in the output of another rank"));
    }
    if (answer.kind == net::kFailure) net::throw_failure(answer);
    if (answer.kind == kNoValue) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(answer.bytes.data()), answer.bytes.size());
  }

  const std::shared_ptr<SharedConnection> shared_;
  const std::string prefix_;
};

std::string name_of(const Endpoint& endpoint) {
  return concat("the store at ", endpoint.address, ":", std::to_string(endpoint.port));
}

// Other users' runs with the same port have other names.
std::string local_name(int port) {
  return concat("tandem/store/", std::to_string(::geteuid()), "/", std::to_string(port));
}

// Larger than any TCP port, so that it is nobody's MASTER_PORT.
int random_port() {
  std::uint32_t number = 0;
  fill_randomly(std::as_writable_bytes(std::span(&number, 1)));
  return static_cast<int>(100'000 + number % 1'000'000'000);
}

// A store between hosts has in it what lets members in.
net::DoorOptions door_at(const StorePlace& place) {
  return {.access = {place.reach, place.secret.empty() ? net::Traffic::kOpen : net::Traffic::kEncrypted},
          .local = local_name(place.endpoint.port),
          .port = place.endpoint.port,
          .secret = place.secret,
          .name = name_of(place.endpoint)};
}

net::Access access_of(const StorePlace& place) { return {place.reach, place.traffic}; }

// Where a process of the run dials. A host that is not known has no addresses; `why` says so.
net::Place dialled(const StorePlace& place, std::string& why) {
  if (place.reach == net::Reach::kThisHost) return {.local = local_name(place.endpoint.port)};
  return {.local = {}, .addresses = net::look_up(place.endpoint.address, why), .port = place.endpoint.port};
}

[[noreturn]] void give_up(const StorePlace& place, const Limits& limits, Clock::time_point begin,
                          const std::string& cause) {
  const std::string failure = concat("cannot reach ", name_of(place.endpoint));
  if (limits.stop.stop_requested()) throw GroupAborted(concat(failure, " before the wait was stopped: ", cause));
  const std::string where = place.reach == net::Reach::kThisHost
                                ? "is of another user or in another network namespace, or MASTER_PORT is not its port, "
                                  "or it has a run secret and a MASTER_ADDR beyond loopback, and this process has not"
                                : "MASTER_ADDR and MASTER_PORT are not its address, or a firewall is between";
  throw DeadlineExceeded(concat(failure, " within ", seconds_since(begin), " s: ", cause,
                                "; likely its host (rank 0, or the launcher) is not running or has failed, or ",
                                where));
}

std::vector<std::string> addresses_of_master(const LauncherEnvironment& me, const Limits& limits) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    std::string why;
    std::vector<std::string> addresses = net::look_up(me.master.address, why);
    if (!addresses.empty()) return addresses;
    if (limits.stop.stop_requested() || limits.deadline.expired())
      give_up({.endpoint = me.master, .reach = net::Reach::kEverywhere}, limits, begin, why);
    pause(kBetweenAttempts, limits);
  }
}

}  // namespace

HostedStore host_store(const StorePlace& place) {
  StorePlace taken = place;
  if (place.endpoint.port == 0 && place.reach == net::Reach::kThisHost) taken.endpoint.port = random_port();
  const auto values = std::make_shared<StoreMap>();
  std::shared_ptr<StoreServer> server;
  try {
    server = std::make_shared<StoreServer>(values, door_at(taken));
  } catch (const net::AddressTaken& error) {
    throw RunError(concat("cannot host the store on port ", std::to_string(taken.endpoint.port), ": ", error.what(),
                          "; likely another run or program listens there: choose another MASTER_PORT for all ranks, or "
                          "end it (`ss -lntxp` shows who it is)"));
  } catch (const RunError& error) {
    throw RunError(concat("cannot host the store on port ", std::to_string(taken.endpoint.port), ": ", error.what()));
  }
  if (taken.reach == net::Reach::kEverywhere) taken.endpoint.port = server->place().port;
  return {
      std::make_unique<OwnStore>(values, server, access_of(taken),
                                 concat("the store of this process, port ", std::to_string(taken.endpoint.port)), ""),
      taken};
}

std::unique_ptr<Store> connect_to_store(const StorePlace& place, const Limits& limits,
                                        std::chrono::milliseconds reply_limit) {
  const Clock::time_point begin = Clock::now();
  const std::string name = name_of(place.endpoint);
  for (;;) {
    std::string cause;
    const net::Place there = dialled(place, cause);
    if (cause.empty()) {
      // One call takes no longer than an answer may: what listens there may be something else.
      const Clock::duration left = std::min<Clock::duration>(limits.deadline.remaining(), reply_limit);
      try {
        net::Stream stream =
            net::dial(there, place.secret, 0, name,
                      {.deadline = Deadline::after(std::max<Clock::duration>(left, 10ms)), .stop = limits.stop});
        return std::make_unique<RemoteStore>(
            std::make_shared<SharedConnection>(std::move(stream), name, access_of(place), reply_limit), "");
      } catch (const net::OtherSecret& error) {
        throw ConfigError(concat(error.what(),
                                 ": give all ranks of the run the same secret, TANDEM_RUN_SECRET or "
                                 "TANDEM_RUN_SECRET_FILE"));
      } catch (const GroupAborted& error) {
        cause = error.what();
      } catch (const RunError& error) {
        cause = error.what();
      }
    }
    if (limits.stop.stop_requested() || limits.deadline.expired()) give_up(place, limits, begin, cause);
    pause(kBetweenAttempts, limits);
  }
}

std::unique_ptr<Store> make_memory_store() {
  return std::make_unique<OwnStore>(std::make_shared<StoreMap>(), nullptr, net::Reach::kThisHost,
                                    "the store of this process", "");
}

// Ranks of one host need no secret, and nobody else reaches their store. Whether all are on one host is not known here
// unless the launcher says it: else who is on another one finds that the address is not its own.
StorePlace place_of_store(const LauncherEnvironment& me, const Limits& limits) {
  StorePlace place{.endpoint = me.master, .reach = net::Reach::kThisHost, .secret = me.secret, .traffic = me.traffic};
  const std::vector<std::string> addresses = addresses_of_master(me, limits), own = net::own_addresses();
  if (std::ranges::all_of(addresses, net::is_loopback)) return place;
  const bool is_own = std::ranges::any_of(
      addresses, [&](const std::string& each) { return std::ranges::find(own, each) != own.end(); });
  if (me.secret.empty() && !me.is_insecure) {
    if (is_own && !has_other_hosts(me)) return place;
    throw ConfigError(concat("ranks on several hosts need a run secret, by which they know each other: ",
                             is_own ? concat("the launcher (", name_of(me.launcher), ") says that there are several")
                                    : concat("MASTER_ADDR = ", me.master.address, " is no address of this host"),
                             ", and neither TANDEM_RUN_SECRET nor TANDEM_RUN_SECRET_FILE is set; make one with "
                             "`openssl rand -hex 32` and give it to all ranks, or say "
                             "--insecure on all of them, if nobody else reaches their network"));
  }
  if (me.secret.empty() && me.traffic == net::Traffic::kEncrypted) {
    throw ConfigError(
        "--encrypt all needs a run secret, of which the keys are made: set TANDEM_RUN_SECRET_FILE or "
        "TANDEM_RUN_SECRET on all ranks, and leave --insecure out");
  }
  place.reach = net::Reach::kEverywhere;
  return place;
}

std::string run_part(const std::string& run_id, int restarts, int generation) {
  return concat("tandem/", run_id, "/", restarts, "/", generation);
}

std::unique_ptr<Store> open_store(const LauncherEnvironment& me, int generation, const Limits& limits) {
  if (me.world_size == 1) return make_memory_store();
  const std::string part = run_part(me.run_id, me.restart_count, generation);
  const StorePlace place = place_of_store(me, limits);
  if (me.rank == 0 && !me.launcher_hosts_store) return host_store(place).store->part(part);
  return connect_to_store(place, limits)->part(part);
}

}  // namespace tandem::comm
