#include "tandem/sync/variables/succession.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/net/contact.h"

namespace tandem::sync {
namespace {

// Who comes to a door: a replica, or its succession, which comes to see who is left, or to ask one question. A door
// knows one connection of each by number, and what the end of a replica's means, the end of the others' does not.
int roll_caller(int replica, int replicas) { return replicas + replica; }
int asker(int replica, int replicas) { return 2 * replicas + replica; }

}  // namespace

Succession::Succession(std::shared_ptr<SyncVariables> variables, Options options)
    : variables_(std::move(variables)), options_(std::move(options)), sums_(variables_->make_gradients()) {
  server_ = std::make_unique<VariableServer>(
      variables_, options_.names,
      ServerHooks{.answer = [this](int member, const net::Message& request,
                                   const Limits& limits) { return answer(member, request, limits); },
                  .lose = [this](int member, const std::exception_ptr& why) { lose(member, why); }});
}

// The door is shut before anything else shows the end, so that who looks at it then sees it. The door's threads start
// watches, and their waits end with `over_`. Then an owner that ends before the others have left is dead to them all,
// also to replicas of its process, which would go on with variables that others have taken over: a step of theirs ends
// with `over_`, too.
Succession::~Succession() {
  if (server_) server_->shut_door();
  over_.request_stop();
  server_.reset();
  if (role() == Role::kOwner) variables_->fail(std::make_exception_ptr(has_ended()));
  variables_->keep_elsewhere(nullptr);
  std::vector<std::unique_ptr<Worker>> watches;
  const MutexLock lock(mutex_);
  watches_.swap(watches);
}

void Succession::meet(std::vector<Door> doors) {
  const MutexLock lock(mutex_);
  doors_ = std::move(doors);
}

std::shared_ptr<VariableService> Succession::variables_here(int replica) const {
  const MutexLock lock(mutex_);
  return doors_.at(static_cast<std::size_t>(replica)).variables;
}

net::ServerAddress Succession::address(int replica) const {
  const MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(replica);
  return {.contact = doors_.at(index).contact, .member = replica, .name = options_.names[index]};
}

Limits Succession::patience() const {
  return {.deadline = Deadline::after(options_.patience), .stop = over_.get_token()};
}

Limits Succession::to_connect() const { return {.deadline = Deadline::after(kToConnect), .stop = over_.get_token()}; }

// --- roles ----------------------------------------------------------------------------------------------------------

void Succession::become(Role role) {
  {
    const MutexLock lock(mutex_);
    role_ = role;
    owns_ = owns_ || role == Role::kOwner;
  }
  changed_.notify_all();
}

Succession::Role Succession::role() const {
  const MutexLock lock(mutex_);
  return role_;
}

bool Succession::is_owner() const {
  const MutexLock lock(mutex_);
  return owns_;
}

std::optional<int> Succession::standby() const {
  const MutexLock lock(mutex_);
  return standby_;
}

void Succession::set_standby(std::optional<int> standby) {
  const MutexLock lock(mutex_);
  standby_ = standby;
}

VariableRequest Succession::whereabouts() const {
  const Role now = role();
  if (now == Role::kOwner) return kHere;
  return now == Role::kStandby || now == Role::kSucceeding ? kUndecided : kNotHere;
}

std::optional<VariableRequest> Succession::ask_where(int replica, const Limits& limits) const {
  if (replica == options_.me) return whereabouts();
  const auto client = if_there(
      [&] { return std::make_unique<net::MessageClient>(address(replica), asker(options_.me, size()), limits); });
  if (!client) return std::nullopt;
  try {
    return static_cast<VariableRequest>((*client)->call(kWhere, {}, limits).kind);
  } catch (const PeerLost& lost) {
    if (lost.peer() != replica) throw;
    return std::nullopt;
  }
}

bool Succession::await_here(const Limits& limits) {
  const MutexLock lock(mutex_);
  const auto is_settled = [this]()
                              TANDEM_REQUIRES(mutex_) { return role_ != Role::kStandby && role_ != Role::kSucceeding; };
  if (changed_.wait(mutex_, limits.stop, limits.deadline, is_settled)) return role_ == Role::kOwner;
  const std::string what = concat("the standby of the variables (replica ", options_.me, ") waited for ",
                                  options_.names[static_cast<std::size_t>(owner_)], ", their owner, to end");
  if (limits.stop.stop_requested()) throw GroupAborted(what + ", and was stopped");
  throw DeadlineExceeded(what + "; the deadline passed");
}

void Succession::own() {
  variables_->keep_elsewhere(this);
  variables_->show_whole([this](const KeptRecord& record, const std::vector<at::Tensor>& state) {
    if (!client_ || !give_whole(record, state)) appoint(record, state);
  });
  become(Role::kOwner);
}

// Who is done closes its door, so that it is not waited for by an owner that comes later.
void Succession::finish(const Limits& limits) {
  if (await_here(limits)) {
    variables_->leave(options_.me);  // whose owner died meanwhile is counted on here
    variables_->await_departed(limits);
    variables_->show_whole([this](const KeptRecord&, const std::vector<at::Tensor>&) { end_elsewhere(); });
  }
  become(Role::kOver);
  server_.reset();
}

// --- the owner's part -----------------------------------------------------------------------------------------------

PeerLost Succession::has_ended() const {
  const std::string& name = options_.names[static_cast<std::size_t>(options_.me)];
  return {options_.me, concat(name, ", the owner of the variables, ended before the others had left")};
}

void Succession::begin_step(const KeptRecord& record, const model::FlatParameters::Gradients& sums) {
  if (!client_) return;
  try {
    const std::vector<std::byte> head = bytes_of(record);
    client_->ask(kKeepStep, MessageParts(head, &sums).get(), patience());
  } catch (const PeerLost&) {
    lose_standby();
  } catch (const GroupAborted&) {
    throw has_ended();
  }
}

void Succession::finish_step(const KeptRecord& record, const State& state) {
  try {
    try {
      if (client_) (void)client_->await_answer(patience());
    } catch (const PeerLost&) {
      lose_standby();
    }
    if (!client_) appoint(record, state());
  } catch (const GroupAborted&) {
    throw has_ended();
  }
}

void Succession::end_elsewhere() {
  try {
    if (client_) (void)client_->call(kKeepEnd, {}, patience());
  } catch (const PeerLost&) {
    lose_standby();
  }
}

void Succession::lose_standby() {
  client_.reset();
  if (const std::optional<int> former = standby()) gone_.insert(*former);
  set_standby(std::nullopt);
}

std::vector<int> Succession::of_process_of(int replica) const {
  const MutexLock lock(mutex_);
  const std::string& process = doors_.at(static_cast<std::size_t>(replica)).process;
  std::vector<int> replicas{replica};
  for (int other = 0; !process.empty() && other < size(); ++other) {
    if (other != replica && doors_[static_cast<std::size_t>(other)].process == process) replicas.push_back(other);
  }
  return replicas;
}

// A process takes all its replicas with it, and a host all its processes.
std::vector<int> Succession::candidates() const {
  const MutexLock lock(mutex_);
  const auto door = [this](int replica)
                        TANDEM_REQUIRES(mutex_) -> const Door& { return doors_.at(static_cast<std::size_t>(replica)); };
  std::vector<int> replicas;
  for (int replica = 0; replica < size(); ++replica) {
    if (!door(replica).variables && !gone_.contains(replica)) replicas.push_back(replica);
  }
  const std::string& mine = door(options_.me).host;
  std::stable_partition(replicas.begin(), replicas.end(),
                        [&](int replica) { return mine.empty() || door(replica).host != mine; });
  return replicas;
}

void Succession::appoint(const KeptRecord& record, const std::vector<at::Tensor>& state) {
  for (const int replica : candidates()) {
    if (gone_.contains(replica)) continue;  // by now
    try {
      auto client =
          if_there([&] { return std::make_unique<net::MessageClient>(address(replica), options_.me, to_connect()); });
      client_ = client ? *std::move(client) : nullptr;
    } catch (const DeadlineExceeded&) {  // its host does not answer: nobody else there will
      for (const int each : of_process_of(replica)) gone_.insert(each);
      continue;
    }
    if (!client_) {
      gone_.insert(replica);
      continue;
    }
    set_standby(replica);
    if (give_whole(record, state)) return;
  }
}

// False when the standby has died.
bool Succession::give_whole(const KeptRecord& record, const std::vector<at::Tensor>& state) {
  const std::vector<std::byte> head = bytes_of(record);
  try {
    (void)client_->call(kKeepWhole, MessageParts(head, state).get(), patience());
    return true;
  } catch (const PeerLost&) {
    lose_standby();
    return false;
  }
}

// --- the standby's part ---------------------------------------------------------------------------------------------

std::optional<net::Message> Succession::answer(int member, const net::Message& request, const Limits& limits) {
  net::Message done{.kind = kDone, .patience = -1, .bytes = {}};
  switch (request.kind) {
    case kWhere:
      done.kind = whereabouts();
      break;
    case kRecall:
      if (whereabouts() == kHere) return fate_message(variables_->recall(member, read_value<Recalled>(request)));
      done.kind = kNotHere;
      break;
    case kKeepWhole:
      keep_whole(member, request, limits);
      break;
    case kKeepStep:
      keep_step(request);
      break;
    case kKeepEnd:
      become(Role::kOver);
      break;
    default:
      return std::nullopt;
  }
  return done;
}

// An owner whose end was noticed before this was its standby is lost now; one of which this was it already, meanwhile.
void Succession::keep_whole(int owner, const net::Message& message, const Limits& limits) {
  {
    const MutexLock kept(keeping_);
    MessageReader reader(message.bytes);
    const KeptRecord record = read_record(reader);
    variables_->adopt(record, [&](const std::vector<at::Tensor>& state) {
      for (const at::Tensor& each : state) reader.read_into(each);
    });
    reader.require_end();
    const MutexLock lock(mutex_);
    if (role_ == Role::kSucceeding) return;
    owner_ = owner;
    role_ = Role::kStandby;
  }
  if (limits.stop.stop_requested())
    lose(owner,
         std::make_exception_ptr(PeerLost(owner, concat(address(owner).name, " ended while a standby was made"))));
}

void Succession::keep_step(const net::Message& message) {
  const MutexLock lock(keeping_);
  if (role() != Role::kStandby) throw RunError("a step to keep for an owner that is gone");
  MessageReader reader(message.bytes);
  const KeptRecord record = read_record(reader);
  read_gradient(reader, variables_->layout(), sums_);
  reader.require_end();
  variables_->follow(record, sums_);
}

void Succession::lose(int member, const std::exception_ptr& why) {
  {
    const MutexLock lock(mutex_);
    if (role_ != Role::kOwner && (role_ != Role::kStandby || member != owner_)) return;
    if (role_ == Role::kStandby) role_ = Role::kSucceeding;
  }
  if (role() == Role::kSucceeding)
    succeed(member);
  else if (member < size())
    variables_->lose(member, why);
}

// --- from one to the other ------------------------------------------------------------------------------------------

void Succession::succeed(int former) {
  try {
    const std::vector<std::shared_ptr<net::Connection>> others = call_the_roll();
    std::set<int> alive;
    for (const auto& each : others) alive.insert(each->peer());
    if (alive.contains(former)) {  // it lives, and has another standby by now
      become(Role::kBystander);
      return;
    }
    for (int replica = 0; replica < size(); ++replica) {
      if (!alive.contains(replica)) gone_.insert(replica);
    }
    { const MutexLock kept(keeping_); }  // a step that came before the owner's end; none comes any more
    variables_->take_over(options_.me, alive);
    own();
    for (const auto& each : others) watch(each);
  } catch (const GroupAborted&) {
    become(Role::kOver);  // this process ends as well
  } catch (...) {
    variables_->fail(std::current_exception());
    become(Role::kOwner);  // whoever asks is told
  }
}

// A connection to each replica that lives, by which its death is noticed also before it asks for anything.
std::vector<std::shared_ptr<net::Connection>> Succession::call_the_roll() {
  std::vector<std::shared_ptr<net::Connection>> others;
  std::set<int> silent;
  for (int replica = 0; replica < size(); ++replica) {
    if (replica == options_.me || silent.contains(replica)) continue;
    const net::ServerAddress there = address(replica);
    try {
      const auto connection = if_there([&] {
        return std::make_shared<net::Connection>(
            net::dial(there.contact, {.member = roll_caller(options_.me, size())}, to_connect()), replica, there.name);
      });
      if (connection) others.push_back(*connection);
    } catch (const DeadlineExceeded&) {  // nor will others of its process answer
      for (const int each : of_process_of(replica)) silent.insert(each);
    }
  }
  return others;
}

// Who has come as a replica meanwhile is lost by its own connection, at the same time.
void Succession::watch(const std::shared_ptr<net::Connection>& connection) {
  const MutexLock lock(mutex_);
  watches_.push_back(
      std::make_unique<Worker>(concat("watch-", connection->peer()), [this, connection](const std::stop_token& stop) {
        try {
          for (;;) (void)connection->receive({.deadline = Deadline::infinite(), .stop = stop});
        } catch (const PeerLost&) {
          variables_->lose(connection->peer(), std::current_exception());
        } catch (const RunError&) {  // NOLINT(bugprone-empty-catch): the run is over
        }
      }));
}

}  // namespace tandem::sync
