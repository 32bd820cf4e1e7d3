#include "tandem/sync/variables/served_strategy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/comm/host_map.h"
#include "tandem/comm/store/store.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {
namespace {

// --- variables of this process, by a text that replicas tell each other through the group ---

struct Registry {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<VariableService>> entries TANDEM_GUARDED_BY(mutex);
  std::int64_t entered TANDEM_GUARDED_BY(mutex) = 0;
};

Registry& registry() {
  static Registry the_one;
  return the_one;
}

// A text that no other process has. Processes of different hosts may have the same number, and one that was forked the
// same random text.
std::string process_key() {
  static const std::string random = comm::new_token();
  return concat(::getpid(), "-", random);
}

// The text under which the variables are found in this process while they live.
std::string enter_variables(const std::shared_ptr<VariableService>& variables) {
  const MutexLock lock(registry().mutex);
  auto& entries = registry().entries;
  std::erase_if(entries, [](const auto& entry) { return entry.second.expired(); });
  const std::string key = concat(process_key(), "-", registry().entered++);
  entries[key] = variables;
  return key;
}

std::shared_ptr<VariableService> find_variables(const std::string& key) {
  const MutexLock lock(registry().mutex);
  const auto found = registry().entries.find(key);
  std::shared_ptr<VariableService> variables;
  if (found != registry().entries.end()) variables = found->second.lock();
  TANDEM_CHECK(variables != nullptr, "no shared variables '", key, "' in this process");
  return variables;
}

bool is_here(const std::string& key) { return key == process_key(); }

// Replicas of one host are let in by a socket that no other host reaches. `hosts`: their keys (comm/host_map.h).
net::Access access_of(const std::vector<std::string>& hosts, const comm::Group& group) {
  const bool is_one = std::ranges::all_of(hosts, [&](const std::string& key) { return key == hosts.front(); });
  return {is_one && !hosts.front().empty() ? net::Reach::kThisHost : net::Reach::kEverywhere, group.traffic()};
}

}  // namespace

// Plan: begin() connects once, makes all equal and loads the variables (start_anew). bring_together() makes all equal
// between steps, and leave() at the end; in both all meet in the group, and rest() or leave() tells the variables
// before that no replica is to be waited for there. depart() is the end without the group.
void ServedStrategy::begin(const Limits& limits) {
  require_same_model(replica_, group_, limits);
  if (stage_ == Stage::kNew) connect(limits);
  if (stage_ == Stage::kRunning) bring_together(limits);
  start_anew(limits);
}

void ServedStrategy::connect(const Limits& limits) {
  const std::vector<std::string> keys = gather_text(group_, process_key(), limits);
  const std::vector<std::string> hosts = gather_text(group_, comm::this_host("").key, limits);
  const std::vector<std::string> names =
      gather_text(group_, concat("replica ", group_.rank(), " (", process_name(), ")"), limits);
  link_.reset();  // of a former begin()
  if (standby_patience())
    connect_to_all(keys, hosts, names, limits);
  else
    connect_to_one(keys, hosts, names, limits);
  group_.barrier(limits);  // until here the variables of others must live
}

// Replicas that share a process with replica 0 find the variables there, the others are told where they are served.
void ServedStrategy::connect_to_one(const std::vector<std::string>& keys, const std::vector<std::string>& hosts,
                                    const std::vector<std::string>& names, const Limits& limits) {
  std::string entry, contact;
  if (group_.rank() == 0) {
    service_ = make_variables();
    entry = enter_variables(service_);
    if (!std::ranges::all_of(keys, is_here)) {
      server_ = std::make_unique<VariableServer>(access_of(hosts, group_), service_, names);
      contact = server_->contact();
    }
  }
  entry = gather_text(group_, entry, limits).front();
  contact = gather_text(group_, contact, limits).front();
  if (is_here(keys.front())) {
    service_ = find_variables(entry);
    link_ = link_within(service_, replica_);
  } else {
    link_ = link_across({.contact = contact, .member = 0, .name = names.front()}, replica_, limits);
  }
}

// All that any of them may have to do later is there from the beginning: when a process has died, the group is over.
void ServedStrategy::connect_to_all(const std::vector<std::string>& keys, const std::vector<std::string>& hosts,
                                    const std::vector<std::string>& names, const Limits& limits) {
  if (std::ranges::all_of(keys, is_here)) {
    throw ConfigError(concat("sync_replicas: a standby keeps the variables for the death of a process, and all ",
                             keys.size(), " replicas are in one; start at least two, or do without (Standby::kNone)"));
  }
  service_ = make_variables();
  succession_ = std::make_unique<Succession>(
      std::static_pointer_cast<SyncVariables>(service_),
      Succession::Options{
          .me = group_.rank(), .access = access_of(hosts, group_), .names = names, .patience = *standby_patience()});
  const std::vector<std::string> contacts = gather_text(group_, succession_->contact(), limits);
  const std::vector<std::string> entries = gather_text(group_, enter_variables(service_), limits);
  std::vector<Succession::Door> doors;
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    doors.push_back({.contact = contacts[i],
                     .host = hosts[i],
                     .process = keys[i],
                     .variables = is_here(keys[i]) ? find_variables(entries[i]) : nullptr});
  }
  succession_->meet(std::move(doors));
  link_ = link_that_follows(*succession_, replica_, limits);
}

// Replica 0's state becomes everybody's, and the variables'. Nobody steps before they are loaded, nor before all may.
void ServedStrategy::start_anew(const Limits& limits) {
  broadcast(limits);
  if (group_.rank() == 0) {
    service_->load(replica_, besides());
    if (succession_) succession_->own();
  }
  group_.barrier(limits);
  link_->resume(limits);
  group_.barrier(limits);
  stage_ = Stage::kRunning;
  steps_ = steps_in_place_ = 0;
}

// Every replica gets the variables as they are when all have come, and the mean buffers; nothing when nobody stepped
// meanwhile. Nobody is waited for on the way to the barrier, and afterwards all go on side by side.
void ServedStrategy::bring_together(const Limits& limits) {
  prepare_step(limits);
  if (stage_ != Stage::kRunning) return;
  // All have to come to the same answer, because collectives follow.
  std::vector<double> steps(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::vector<double>{static_cast<double>(steps_ - steps_in_place_)}, steps, limits);
  if (std::ranges::none_of(steps, [](double count) { return count > 0; })) return;
  link_->rest(limits);
  take_variables(limits);
  if (group_.rank() == 0) service_->end_rest();
  group_.barrier(limits);
  link_->resume(limits);
  group_.barrier(limits);
  steps_in_place_ = steps_;
}

void ServedStrategy::leave(const Limits& limits) {
  require_begun();
  prepare_step(limits);
  link_->leave(limits);  // for good: its end is no failure any more
  take_variables(limits);
  group_.barrier(limits);
  stage_ = Stage::kLeft;
}

void ServedStrategy::depart(const Limits& limits) {
  require_begun();
  prepare_step(limits);
  std::vector<at::Tensor> state = state_of(replica_);
  for (const auto& [name, tensor] : besides()) state.push_back(tensor);
  link_->depart(state, limits);
  replica_.optimizer().state_changed();
  if (succession_)
    succession_->finish(limits);
  else if (group_.rank() == 0)
    service_->await_departed(limits);
  stage_ = Stage::kNew;  // begin() connects anew
}

// Each replica's updates are in the variables when it comes to the barrier.
void ServedStrategy::take_variables(const Limits& limits) {
  group_.barrier(limits);
  average_buffers(limits);
  if (group_.rank() == 0) service_->store(replica_, besides());
  broadcast(limits);
}

// Replica 0's state becomes everybody's.
void ServedStrategy::broadcast(const Limits& limits) {
  broadcast_state(replica_, group_, 0, limits);
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : besides()) {
    const at::Tensor flat = tensor.to(replica_.placement().device).reshape({-1});
    group_.broadcast(flat, 0, limits);
    at::Tensor mine = tensor;
    mine.copy_(flat.view(mine.sizes()));
  }
}

// Buffers that are not averaged are replica 0's, which the broadcast brings.
void ServedStrategy::average_buffers(const Limits& limits) {
  const at::NoGradGuard no_grad;
  for (const model::FlatModuleBuffer& buffer : replica_.buffers().values()) {
    if (buffer.merge != model::FlatModuleBuffer::Merge::kMean) continue;
    const at::Tensor sum =
        group_.allocate(buffer.values.numel(), buffer.values.scalar_type(), replica_.placement().device);
    sum.copy_(buffer.values);
    group_.start_all_reduce(sum).wait(limits);
    at::Tensor values = buffer.values;
    at::div_out(values, sum, at::scalar_tensor(group_.size(), values.options()));
  }
}

model::NamedTensors ServedStrategy::whole_state(const Limits& limits) {
  bring_together(limits);
  if (replica_.placement().local != 0) return {};
  model::NamedTensors state = replica_.named_state();
  for (const auto& each : besides()) state.push_back(each);
  return state;
}

// The state reaches the variables at the next collective call, from replica 0: this call waits for none.
void ServedStrategy::load_whole_state(const model::NamedTensors& state) {
  model::NamedTensors live = replica_.named_state();
  for (const auto& each : besides()) live.push_back(each);
  model::copy_named(state, live);
  replica_.optimizer().state_changed();
  if (stage_ != Stage::kNew) stage_ = Stage::kLoaded;
}

void ServedStrategy::require_begun() const {
  TANDEM_EXPECTS(stage_ == Stage::kRunning || stage_ == Stage::kLoaded, "a step before begin(), or after leave()");
}

void ServedStrategy::prepare_step(const Limits& limits) {
  if (stage_ == Stage::kLoaded) start_anew(limits);
}

std::optional<GradientAccount> ServedStrategy::take_account() {
  const bool is_its = succession_ ? succession_->is_owner() : group_.rank() == 0;
  if (!is_its || !service_) return std::nullopt;
  return service_->take_account();
}

void ServedStrategy::abort(const std::string& why) {
  if (link_) link_->abort(why);
}

}  // namespace tandem::sync
