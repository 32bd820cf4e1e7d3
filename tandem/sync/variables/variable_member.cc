#include "tandem/sync/variables/variable_member.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/process_name.h"
#include "tandem/base/text.h"
#include "tandem/comm/host_map.h"
#include "tandem/model/files/named_copy.h"
#include "tandem/sync/replica_state.h"
#include "tandem/sync/variables/following_link.h"
#include "tandem/sync/variables/variable_registry.h"

namespace tandem::sync {
namespace {

// What every replica gives, in their order.
std::vector<std::string> gather_text(comm::Group& group, const std::string& mine, const Limits& limits) {
  const at::Tensor bytes = at::empty({std::ssize(mine)}, at::kByte);
  if (!mine.empty()) std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  std::vector<std::string> all;
  for (const at::Tensor& its : group.all_gather(bytes, limits))
    all.emplace_back(static_cast<const char*>(its.const_data_ptr()), static_cast<std::size_t>(its.numel()));
  return all;
}

std::string name_of(int replica) { return concat("replica ", replica, " (", process_name(), ")"); }

}  // namespace

VariableMember::VariableMember(Replica& replica, comm::Group& group, MakeService make_service, Loaded loaded,
                               MakeSuccession make_succession)
    : replica_(replica),
      group_(group),
      make_service_(std::move(make_service)),
      loaded_(std::move(loaded)),
      make_succession_(std::move(make_succession)) {}

void VariableMember::begin(const Limits& limits) {
  require_same_model(replica_, group_, limits);
  if (stage_ == Stage::kNew) connect(limits);
  if (stage_ == Stage::kRunning) bring_together(limits);
  start_anew(limits);
}

// Who shares a process with replica 0 finds the variables there, the others are told where they are served.
void VariableMember::connect(const Limits& limits) {
  const std::vector<std::string> keys = gather_text(group_, process_key(), limits);
  const std::vector<std::string> names = gather_text(group_, name_of(group_.rank()), limits);
  if (make_succession_) {
    connect_to_all(keys, names, limits);
    return;
  }
  std::string entry, contact;
  if (group_.rank() == 0) {
    service_ = make_service_(replica_);
    entry = enter_variables(service_);
    const bool is_served = std::any_of(keys.begin(), keys.end(), [](auto& key) { return key != process_key(); });
    if (is_served) server_ = std::make_unique<VariableServer>(service_, names);
    if (is_served) contact = server_->contact();
  }
  entry = gather_text(group_, entry, limits).front();
  contact = gather_text(group_, contact, limits).front();
  if (keys.front() == process_key()) {
    service_ = find_variables(entry);
    link_ = link_within(service_, replica_);
  } else {
    link_ = link_across({.contact = contact, .member = 0, .name = names.front()}, replica_, limits);
  }
  group_.barrier(limits);  // until here replica 0's variables must live
}

// All that any of them may have to do later is there from the beginning: when a process has died, the group is over.
void VariableMember::connect_to_all(const std::vector<std::string>& keys, const std::vector<std::string>& names,
                                    const Limits& limits) {
  if (std::all_of(keys.begin(), keys.end(), [](auto& key) { return key == process_key(); })) {
    throw ConfigError(concat("sync_replicas: a standby keeps the variables for the death of a process, and all ",
                             keys.size(), " replicas are in one; start at least two, or do without (Standby::kNone)"));
  }
  link_.reset();  // of a former begin()
  service_ = make_service_(replica_);
  succession_ = make_succession_(service_, names);
  const std::vector<std::string> contacts = gather_text(group_, succession_->contact(), limits);
  const std::vector<std::string> hosts = gather_text(group_, comm::this_host("").key, limits);
  const std::vector<std::string> entries = gather_text(group_, enter_variables(service_), limits);
  std::vector<Succession::Door> doors;
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    const bool is_here = keys[i] == process_key();
    doors.push_back({.contact = contacts[i],
                     .host = hosts[i],
                     .process = keys[i],
                     .variables = is_here ? find_variables(entries[i]) : nullptr});
  }
  succession_->meet(std::move(doors));
  link_ = link_that_follows(*succession_, replica_, limits);
  group_.barrier(limits);
}

// Replica 0's state becomes everybody's, and the variables'. Nobody steps before they are loaded, nor before all may.
void VariableMember::start_anew(const Limits& limits) {
  broadcast_state(replica_, group_, 0, limits);
  if (group_.rank() == 0) {
    service_->load(replica_);
    if (loaded_) loaded_(*service_);
    if (succession_) succession_->own();
  }
  group_.barrier(limits);
  link_->resume(limits);
  group_.barrier(limits);
  stage_ = Stage::kRunning;
  steps_ = steps_in_place_ = 0;
}

// Nobody is waited for on the way to the barrier, and afterwards all go on side by side.
void VariableMember::bring_together(const Limits& limits) {
  prepare_step(limits);
  if (stage_ != Stage::kRunning || !anybody_stepped(limits)) return;
  link_->rest(limits);
  take_variables(limits);
  if (group_.rank() == 0) service_->end_rest();
  group_.barrier(limits);
  link_->resume(limits);
  group_.barrier(limits);
  steps_in_place_ = steps_;
}

void VariableMember::leave(const Limits& limits) {
  require_begun();
  prepare_step(limits);
  link_->leave(limits);  // for good: its end is no failure any more
  take_variables(limits);
  group_.barrier(limits);
  stage_ = Stage::kLeft;
}

void VariableMember::depart(const model::NamedTensors& also, const Limits& limits) {
  require_begun();
  prepare_step(limits);
  std::vector<at::Tensor> state = state_of(replica_);
  for (const auto& [name, tensor] : also) state.push_back(tensor);
  link_->depart(state, limits);
  replica_.optimizer().state_changed();
  if (succession_)
    succession_->finish(limits);
  else if (group_.rank() == 0)
    service_->await_departed(limits);
  stage_ = Stage::kNew;  // begin() connects anew
}

// Each replica's updates are in the variables when it comes to the barrier.
void VariableMember::take_variables(const Limits& limits) {
  group_.barrier(limits);
  average_buffers(limits);
  if (group_.rank() == 0) service_->store(replica_);
  broadcast_state(replica_, group_, 0, limits);
}

bool VariableMember::anybody_stepped(const Limits& limits) {
  std::vector<double> steps(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::vector<double>{static_cast<double>(steps_ - steps_in_place_)}, steps, limits);
  return std::any_of(steps.begin(), steps.end(), [](double count) { return count > 0; });
}

// Those that are not averaged are replica 0's, which the broadcast brings.
void VariableMember::average_buffers(const Limits& limits) {
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

void VariableMember::load(const model::NamedTensors& state, const model::NamedTensors& also) {
  model::NamedTensors live = replica_.named_state();
  live.insert(live.end(), also.begin(), also.end());
  model::copy_named(state, live);
  replica_.optimizer().state_changed();
  if (stage_ != Stage::kNew) stage_ = Stage::kLoaded;
}

void VariableMember::require_begun() const {
  TANDEM_CHECK(stage_ == Stage::kRunning || stage_ == Stage::kLoaded, "a step before begin(), or after leave()");
}

void VariableMember::prepare_step(const Limits& limits) {
  if (stage_ == Stage::kLoaded) start_anew(limits);
}

std::optional<GradientAccount> VariableMember::take_account() {
  const bool is_its = succession_ ? succession_->is_owner() : group_.rank() == 0;
  if (!is_its || !service_) return std::nullopt;
  return service_->take_account();
}

void VariableMember::abort(const std::string& why) {
  if (link_) link_->abort(why);
}

}  // namespace tandem::sync
