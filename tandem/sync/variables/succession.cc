#include "tandem/sync/variables/succession.h"

#include <algorithm>

#include "tandem/base/text.h"
#include "tandem/net/contact.h"

namespace tandem::sync {
namespace {

// Plan: (1) Every replica opens a door (a VariableServer), and all learn of all doors while the group still lives:
// meet(). (2) The owner appoints a standby, own(), and sends it each step before its own update: make_step(). (3) The
// connection between the two ends. If the standby is gone, the owner appoints the next one within the step. If the
// owner is gone, the standby looks for the others at their doors, takes over, appoints a standby of its own, and only
// then lets in those that ask: succeed(). (4) At the end the owner tells its standby that all have left: finish(). The
// owner's part runs on the thread that completes a step, with the variables' lock; the standby's part, and the news of
// deaths, on the threads of the door.
//
// A door knows a connection by the number of its member. A replica comes under its own number, and the end of that
// connection is its death. Its succession comes under two others, to see who is left or to ask one question; the end of
// those connections means nothing.
int roll_caller(int replica, int replicas) { return replicas + replica; }
int asker(int replica, int replicas) { return 2 * replicas + replica; }

}  // namespace

Succession::Succession(std::shared_ptr<SyncVariables> variables, Options options)
    : variables_(std::move(variables)), options_(std::move(options)), sums_(variables_->make_gradients()) {
  server_ = std::make_unique<VariableServer>(
      options_.access, variables_, options_.names,
      ServerHooks{.answer = [this](int member, const net::Message& request,
                                   const Limits& limits) { return answer(member, request, limits); },
                  .lose = [this](int member, const std::exception_ptr& why) { lose(member, why); }});
}

// The door is shut before anything else shows the end, so that a standby that looks for this replica finds the door
// shut. The waits of the door's threads end with `over_`; these threads start watches, which therefore end last. An
// owner that ends before the others have left is dead to all of them, also to replicas of its own process, which would
// otherwise go on with variables that others have taken over: their steps fail with has_ended().
Succession::~Succession() {
  if (server_) server_->shut_door();
  over_.request_stop();
  server_.reset();
  if (role() == Role::kOwner) variables_->fail(std::make_exception_ptr(has_ended()));
  variables_->keep_elsewhere({});
  std::vector<std::unique_ptr<Worker>> watches;
  const MutexLock lock(mutex_);
  watches_.swap(watches);
}

net::ServerAddress Succession::address(int replica) const {
  const MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(replica);
  return {.contact = doors_.at(index).contact, .member = replica, .name = options_.names[index]};
}

void Succession::become(Role role) {
  {
    const MutexLock lock(mutex_);
    role_ = role;
    owns_ = owns_ || role == Role::kOwner;
  }
  changed_.notify_all();
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

// A standby that is there already, as after a load, is given the whole state again.
void Succession::own() {
  variables_->keep_elsewhere([this](const auto& record, const auto& sums, const auto& here, const auto& state) {
    make_step(record, sums, here, state);
  });
  variables_->show_whole([this](const KeptRecord& record, const std::vector<at::Tensor>& state) {
    give_whole(record, state);
    if (!client_) appoint(record, state);
  });
  become(Role::kOwner);
}

// A replica that is done closes its door, so that an owner that comes later does not wait for it.
void Succession::finish(const Limits& limits) {
  if (await_here(limits)) {
    variables_->leave(options_.me);  // a standby that has just taken over counts on its own replica once more
    variables_->await_departed(limits);
    variables_->show_whole([this](const KeptRecord&, const std::vector<at::Tensor>&) {
      with_standby([this](net::MessageClient& standby) { (void)standby.call(kKeepEnd, {}, patience()); });
    });
  }
  become(Role::kOver);
  server_.reset();
}

// --- the owner's part -----------------------------------------------------------------------------------------------

// The error of a step that the end of this owner interrupts: replicas of this process then look for the next owner.
PeerLost Succession::has_ended() const {
  const std::string& name = options_.names[static_cast<std::size_t>(options_.me)];
  return {options_.me, concat(name, ", the owner of the variables, ended before the others had left")};
}

// Sends the sums, makes the update here while the standby makes its own, and waits for its answer. Without a standby,
// or when it has died in this step, the whole state goes to the next one, so that no step counts that only this process
// has.
void Succession::make_step(const KeptRecord& record, const model::FlatParameters::Gradients& sums,
                           const std::function<void()>& here, const std::function<std::vector<at::Tensor>()>& state) {
  try {
    with_standby([&](net::MessageClient& standby) {
      standby.ask(kKeepStep, MessageParts(front_of(record), tensors_of(&sums)).get(), patience());
    });
    here();
    with_standby([this](net::MessageClient& standby) { (void)standby.await_answer(patience()); });
    if (!client_) appoint(record, state());
  } catch (const GroupAborted&) {
    throw has_ended();
  }
}

// Exchanges something with the standby, if there is one, and afterwards there is none if it has died.
void Succession::with_standby(const std::function<void(net::MessageClient& standby)>& exchange) {
  try {
    if (client_) exchange(*client_);
  } catch (const PeerLost&) {
    client_.reset();
    if (const std::optional<int> former = standby()) gone_.insert(*former);
    set_standby(std::nullopt);
  }
}

// The replicas that die when this one's process does; itself first.
std::vector<int> Succession::of_process_of(int replica) const {
  const MutexLock lock(mutex_);
  const std::string& process = doors_.at(static_cast<std::size_t>(replica)).process;
  std::vector<int> replicas{replica};
  for (int other = 0; !process.empty() && other < size(); ++other) {
    if (other != replica && doors_[static_cast<std::size_t>(other)].process == process) replicas.push_back(other);
  }
  return replicas;
}

// Replicas that may become the standby, in the order in which they are asked: those on other hosts first, since a host
// takes all its processes with it, and none of this process, since a process takes all its replicas with it.
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

// Makes the first candidate that answers the standby. None may be left: then the owner goes on alone.
void Succession::appoint(const KeptRecord& record, const std::vector<at::Tensor>& state) {
  for (const int replica : candidates()) {
    if (gone_.contains(replica)) continue;  // found gone since candidates() was called
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
    give_whole(record, state);
    if (client_) return;
  }
}

// Sends the whole state to the standby, if there is one, and waits until it has it.
void Succession::give_whole(const KeptRecord& record, const std::vector<at::Tensor>& state) {
  with_standby([&](net::MessageClient& standby) {
    (void)standby.call(kKeepWhole, MessageParts(front_of(record), state).get(), patience());
  });
}

// Requests of other successions, and of links that look for the variables; nothing for those of replicas to the
// variables.
std::optional<net::Message> Succession::answer(int member, const net::Message& request, const Limits& limits) {
  switch (request.kind) {
    case kWhere:
      return message_of(whereabouts());
    case kRecall:
      if (whereabouts() != kHere) return message_of(kNotHere);
      return message_of(kFate, bytes_of(variables_->recall(member, read_value<Recalled>(request))));
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
  return message_of(kDone);
}

// This process becomes the standby of `owner`. The end of the owner may have been noticed while the state was read,
// when lose() did not yet know that it concerns this process: so it is looked at once more at the end.
void Succession::keep_whole(int owner, const net::Message& message, const Limits& limits) {
  {
    const MutexLock kept(keeping_);
    MessageReader reader(message.bytes);
    const KeptRecord record = read_record(reader);
    variables_->adopt(record, [&](const std::vector<at::Tensor>& state) { reader.read_rest(state); });
    const MutexLock lock(mutex_);
    if (role_ == Role::kSucceeding) return;
    owner_ = owner;
    role_ = Role::kStandby;
  }
  if (limits.stop.stop_requested())
    lose(owner,
         std::make_exception_ptr(PeerLost(owner, concat(address(owner).name, " ended while a standby was made"))));
}

// A step of an owner that is taken for dead is refused: this process may have taken over by then.
void Succession::keep_step(const net::Message& message) {
  const MutexLock lock(keeping_);
  if (role() != Role::kStandby) throw RunError("a step to keep for an owner that is gone");
  MessageReader reader(message.bytes);
  const KeptRecord record = read_record(reader);
  reader.read_gradient(variables_->layout(), sums_);
  reader.require_end();
  variables_->follow(record, sums_);
}

// A connection to this door has ended. The owner counts a replica out. A standby that has lost its owner succeeds it.
// All others ignore it: they hear of the owner's death by their own links.
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

// Takes the place of `former`. On a thread of the door; nobody is let in before a standby has the state (own()).
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
    { const MutexLock kept(keeping_); }  // waits for a step that came before the owner's end; none comes any more
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

// Connects to the door of each replica. A replica that answers lives, and its death is noticed by this connection, also
// before it has asked for anything.
std::vector<std::shared_ptr<net::Connection>> Succession::call_the_roll() {
  std::vector<std::shared_ptr<net::Connection>> others;
  std::set<int> silent;
  for (int replica = 0; replica < size(); ++replica) {
    if (replica == options_.me || silent.contains(replica)) continue;
    const net::ServerAddress there = address(replica);
    try {
      const auto connection = if_there([&] {
        return std::make_shared<net::Connection>(
            net::dial(there.contact, roll_caller(options_.me, size()), to_connect()), replica, there.name);
      });
      if (connection) others.push_back(*connection);
    } catch (const DeadlineExceeded&) {  // nor will others of its process answer
      for (const int each : of_process_of(replica)) silent.insert(each);
    }
  }
  return others;
}

// Counts the replica out when its connection ends. If it has asked for the variables meanwhile, its own connection ends
// at the same time, and the second loss changes nothing.
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
