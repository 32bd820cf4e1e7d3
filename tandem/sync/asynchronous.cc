#include "tandem/sync/asynchronous.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"
#include "tandem/model/named_copy.h"
#include "tandem/sync/replica_state.h"
#include "tandem/sync/variable_registry.h"

namespace tandem::sync {
namespace {

const AsynchronousOptions& checked(const AsynchronousOptions& options) {
  std::vector<std::string> faults;
  if (const auto* wait = std::get_if<WaitForSlower>(&options.bound); wait != nullptr && wait->steps < 0)
    faults.push_back(
        concat("asynchronous: a replica cannot wait until it is ", wait->steps, " steps ahead; 0 or more"));
  if (const auto* drop = std::get_if<DropStaler>(&options.bound); drop != nullptr && drop->updates < 0)
    faults.push_back(concat("asynchronous: no gradient is ", drop->updates, " updates stale; 0 or more"));
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return options;
}

// What every replica gives, in their order.
std::vector<std::string> gather_text(comm::Group& group, const std::string& mine, const Limits& limits) {
  const at::Tensor bytes = at::empty({std::ssize(mine)}, at::kByte);
  if (!mine.empty()) std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  std::vector<std::string> all;
  for (const at::Tensor& its : group.all_gather(bytes, limits))
    all.emplace_back(static_cast<const char*>(its.const_data_ptr()), static_cast<std::size_t>(its.numel()));
  return all;
}

std::string name_of(int replica) {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  return concat("replica ", replica, " (process ", ::getpid(), " on ", host.data(), ")");
}

}  // namespace

Asynchronous::Asynchronous(Replica& replica, comm::Group& group, const AsynchronousOptions& options)
    : replica_(replica),
      group_(group),
      options_(checked(options)),
      alone_(std::move(comm::make_local_group(1).front())),
      mean_(replica, *alone_, options.mean) {}

// --- making all equal ------------------------------------------------------------------------------------------------

void Asynchronous::begin(const Limits& limits) {
  require_same_model(replica_, group_, limits);
  if (stage_ == Stage::kNew) connect(limits);
  if (stage_ == Stage::kRunning && anybody_stepped(limits)) gather(limits);
  start_anew(limits);
}

// Replica 0's state becomes everybody's, and the variables'. Nobody steps before they are loaded.
void Asynchronous::start_anew(const Limits& limits) {
  broadcast_state(replica_, group_, 0, limits);
  if (group_.rank() == 0) variables_->load(replica_);
  group_.barrier(limits);
  stage_ = Stage::kRunning;
  steps_ = steps_in_place_ = 0;
  weight_ = 0;
}

// Who shares a process with replica 0 finds the variables there, the others are told where they are served.
void Asynchronous::connect(const Limits& limits) {
  const std::vector<std::string> keys = gather_text(group_, process_key(), limits);
  const std::vector<std::string> names = gather_text(group_, name_of(group_.rank()), limits);
  std::string entry, contact;
  if (group_.rank() == 0) {
    variables_ = std::make_shared<SharedVariables>(replica_, options_.bound);
    entry = enter_variables(variables_);
    const bool is_served = std::any_of(keys.begin(), keys.end(), [](auto& key) { return key != process_key(); });
    if (is_served) server_ = std::make_unique<VariableServer>(variables_, names);
    if (is_served) contact = server_->contact();
  }
  entry = gather_text(group_, entry, limits).front();
  contact = gather_text(group_, contact, limits).front();
  if (keys.front() == process_key()) {
    variables_ = find_variables(entry);
    link_ = link_within(variables_, replica_);
  } else {
    link_ = link_across({.contact = contact, .member = 0, .name = names.front()}, replica_, limits);
  }
  group_.barrier(limits);  // until here replica 0's variables must live
}

bool Asynchronous::anybody_stepped(const Limits& limits) {
  std::vector<double> steps(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::vector<double>{static_cast<double>(steps_ - steps_in_place_)}, steps, limits);
  return std::any_of(steps.begin(), steps.end(), [](double count) { return count > 0; });
}

// Each replica's updates are in the variables when it comes to the barrier. Nobody is waited for on the way there, and
// afterwards all go on side by side.
void Asynchronous::gather(const Limits& limits) {
  link_->leave(limits);
  group_.barrier(limits);
  average_buffers(limits);
  if (group_.rank() == 0) {
    variables_->store(replica_);
    variables_->rejoin();
  }
  broadcast_state(replica_, group_, 0, limits);
  steps_in_place_ = steps_;
}

// Those that are not averaged are replica 0's, which the broadcast brings.
void Asynchronous::average_buffers(const Limits& limits) {
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

model::NamedTensors Asynchronous::whole_state(const Limits& limits) {
  if (stage_ == Stage::kLoaded) start_anew(limits);
  if (stage_ == Stage::kRunning && anybody_stepped(limits)) gather(limits);
  return replica_.placement().local == 0 ? replica_.named_state() : model::NamedTensors{};
}

void Asynchronous::load_whole_state(const model::NamedTensors& state) {
  model::copy_named(state, replica_.named_state());
  replica_.optimizer().state_changed();
  if (stage_ != Stage::kNew) stage_ = Stage::kLoaded;
}

void Asynchronous::leave(const Limits& limits) {
  TANDEM_CHECK(stage_ == Stage::kRunning || stage_ == Stage::kLoaded, "leave() without begin()");
  if (stage_ == Stage::kLoaded) start_anew(limits);
  gather(limits);
  link_->leave(limits);  // for good: its end is no failure any more
  group_.barrier(limits);
  stage_ = Stage::kLeft;
}

// --- steps -----------------------------------------------------------------------------------------------------------

void Asynchronous::open(int shard) {
  TANDEM_CHECK(stage_ == Stage::kRunning || stage_ == Stage::kLoaded, "open() before begin(), or after leave()");
  mean_.open(shard);
}

void Asynchronous::close(double weight, double loss) {
  mean_.close(weight, loss);
  weight_ += weight;
}

StepReport Asynchronous::step(double lr_factor, const Limits& limits) {
  const double weight = weight_;
  if (stage_ == Stage::kLoaded) start_anew(limits);
  weight_ = 0;
  std::optional<MeanGradient> mean;
  if (weight > 0) mean = mean_.form(lr_factor, steps_, limits);
  const double share = options_.scaling == Scaling::kByReplicas ? 1.0 / group_.size() : 1.0;
  const Offer offer{.replica = group_.rank(),
                    .scale = mean ? mean->scale * share : 0,
                    .learning_rate = replica_.optimizer().learning_rate(),
                    .lr_factor = lr_factor};
  const Clock::time_point start = Clock::now();
  const StalenessLedger::Entry entry = link_->exchange(offer, mean ? &mean_.sums() : nullptr, limits);
  StepReport report = mean ? report_of(*mean, 0) : StepReport{};
  report.verdict = entry.is_applied ? Verdict::kApplied : Verdict::kDropped;
  report.step = ++steps_;
  report.staleness = entry.staleness;
  report.wait_seconds = seconds_since(start);
  return report;
}

void Asynchronous::abort(const std::string& why) {
  if (link_) link_->abort(why);
}

}  // namespace tandem::sync
