#include "tandem/sync/variables/variable_service.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <string>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {
namespace {

std::string listed(const std::vector<int>& replicas) {
  return replicas.empty() ? "nobody" : "replica " + joined(replicas);
}

// Flat memory with the layout of `like`: of a module whose only purpose is to have the same parameters in that order.
// Names are numbers: p0, p1, ...
model::FlatParameters laid_out_as(const model::FlatParameters& like) {
  const auto module = std::make_shared<torch::nn::Module>();
  model::FlatParameters::Options options;
  for (int group = 0; group < like.groups(); ++group) options.groups.push_back({concat("g", group), {}});
  std::size_t number = 0;
  for (const model::FlatBuffer& buffer : like.buffers()) {
    for (const model::ParameterSlot& slot : buffer.slots) {
      const std::string name = concat("p", number++);
      (void)module->register_parameter(name, at::zeros(slot.shape, buffer.values.scalar_type()));
      options.groups[static_cast<std::size_t>(slot.group)].prefixes.push_back(name);
      if (buffer.sparse) options.sparse_parameters.push_back(name);
    }
  }
  return {module, options};
}

}  // namespace

std::vector<at::Tensor> values_of(const model::FlatParameters& parameters) {
  std::vector<at::Tensor> values;
  for (const model::FlatBuffer& buffer : parameters.buffers()) values.push_back(buffer.values);
  return values;
}

std::vector<at::Tensor> state_of(const model::FlatParameters& parameters, const model::Optimizer& optimizer) {
  std::vector<at::Tensor> state = values_of(parameters);
  for (const auto& [name, tensor] : optimizer.state()) state.push_back(tensor);
  return state;
}

void copy_all(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) to.at(i).copy_(from[i]);
}

// A wait mostly ends after a step of another replica, the sum, the update and its reading: for small models a fraction
// of a millisecond, which is longer than a wake-up takes. Hence four times the usual budget.
//
// The layout is checked, because gradients of replicas are added to this memory without looking at names.
VariableService::VariableService(Replica& like)
    : replicas_(like.placement().replicas),
      parameters_(laid_out_as(like.parameters())),
      optimizer_(parameters_, like.optimizer().rules()),
      values_(values_of(parameters_)),
      spin_{4 * spin_budget_for(replicas_).limit} {
  const auto &mine = parameters_.buffers(), &its = like.parameters().buffers();
  TANDEM_CHECK(mine.size() == its.size(), mine.size(), " buffers for ", its.size());
  for (std::size_t b = 0; b < mine.size(); ++b) {
    TANDEM_CHECK(mine[b].values.numel() == its[b].values.numel() && mine[b].sparse == its[b].sparse &&
                     mine[b].slots.size() == its[b].slots.size(),
                 "buffer ", b, " of the shared variables has another layout");
  }
}

model::FlatParameters::Gradients VariableService::make_gradients() const {
  return parameters_.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
}

void VariableService::load(Replica& from, const model::NamedTensors& besides) {
  const MutexLock lock(mutex_);
  require_whole();
  copy_all(state_of(from), state_of(parameters_, optimizer_));
  optimizer_.state_changed();
  start_anew(from);
  if (!besides.empty()) model::copy_named(besides, this->besides());
}

void VariableService::store(Replica& to, const model::NamedTensors& besides) {
  const MutexLock lock(mutex_);
  require_whole();
  copy_all(state_of(parameters_, optimizer_), state_of(to));
  to.optimizer().state_changed();
  if (!besides.empty()) model::copy_named(this->besides(), besides);
}

std::vector<int> VariableService::present() const {
  std::vector<int> present;
  for (int replica = 0; replica < replicas_; ++replica)
    if (is_present(replica)) present.push_back(replica);
  return present;
}

// The loss of a replica that rests is no failure here: those that wait for it do so in a collective, and learn of its
// end there. At the end of a run some replicas are gone while others still come to rest.
void VariableService::lose(int replica, const std::exception_ptr& why) {
  let_go(replica);
  {
    const MutexLock lock(mutex_);
    if (!is_present(replica) || is_resting(replica)) return;
  }
  fail(why);
}

void VariableService::require_alive(int replica, const Limits& limits) {
  if (limits.stop.stop_requested())
    throw GroupAborted(concat("replica ", replica, " asked for the variables and was stopped, or died, meanwhile"));
}

StepReport VariableService::recall(int replica, const Recalled&) {
  TANDEM_CHECK(false, "replica ", replica, " recalls its gradients to variables that cannot take over");
}

void VariableService::let_go(int replica) {
  {
    const MutexLock lock(mutex_);
    reading_.erase(replica);
  }
  tell_all();
}

// The replica counts as a reader before it leaves, so that await_departed() cannot find all gone in between.
void VariableService::depart(int replica, const Limits& limits, const ReadState& read) {
  {
    const MutexLock lock(mutex_);
    require_whole();
    require_alive(replica, limits);
    reading_.insert(replica);
  }
  leave(replica);
  const MutexLock lock(mutex_);
  const auto who = [&]() TANDEM_REQUIRES(mutex_) {
    return concat("replica ", replica, " has left and waited for ", listed(present()), " to do so");
  };
  wait_for([&]() TANDEM_REQUIRES(mutex_) { return present().empty(); }, who, limits);
  read(state());
}

void VariableService::await_departed(const Limits& limits) {
  const MutexLock lock(mutex_);
  const auto who = [&]() TANDEM_REQUIRES(mutex_) {
    return concat("the owner of the variables waited for ", listed({reading_.begin(), reading_.end()}),
                  " to read their last state");
  };
  wait_for([&]() TANDEM_REQUIRES(mutex_) { return present().empty() && reading_.empty(); }, who, limits);
}

std::vector<at::Tensor> VariableService::state() {
  std::vector<at::Tensor> state = state_of(parameters_, optimizer_);
  for (const auto& [name, tensor] : besides()) state.push_back(tensor);
  return state;
}

// Spinning that ends in vain has taken a core that others may need. Then the next waits sleep at once: one, then two,
// four and so on, up to kMostSleeps. The lock is free while this thread spins.
void VariableService::look_out(const std::function<bool()>& is_over) {
  if (spin_.limit.count() == 0) return;
  if (sleeps_left_ > 0) {
    --sleeps_left_;
    return;
  }
  // News for other replicas must not keep this one from sleeping for ever.
  constexpr int kMostNews = 16;
  for (int news = 0; news < kMostNews; ++news) {
    const std::uint32_t seen = told_.load();
    mutex_.unlock();
    const bool is_news = spin_until(spin_, [&] { return told_.load(std::memory_order_relaxed) != seen; });
    mutex_.lock();
    if (!is_news) {
      sleeps_left_ = sleeps_after_spin_;
      sleeps_after_spin_ = std::min(2 * sleeps_after_spin_, kMostSleeps);
      return;
    }
    if (is_over()) break;
  }
  sleeps_after_spin_ = 1;
}

// Waiting replicas are told first; then `failed_`, which may send messages, without mutex_.
void VariableService::fail(const std::exception_ptr& why) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  tell_all();
  const MutexLock lock(telling_);
  if (failed_) failed_(why);
}

// Throws what fail() was given, if it was called; else returns when `ready`, or throws for the deadline or the stop.
void VariableService::wait_for(const std::function<bool()>& ready, const std::function<std::string()>& who,
                               const Limits& limits) {
  const auto is_over = [&]() TANDEM_REQUIRES(mutex_) { return failure_ || ready(); };
  if (!is_over()) look_out(is_over);
  const bool in_time = changed_.wait(mutex_, limits.stop, limits.deadline, is_over);
  require_whole();
  if (in_time) return;
  if (limits.stop.stop_requested()) throw GroupAborted(who() + ", and was stopped");
  throw DeadlineExceeded(who() + "; the deadline passed: it is stopped, or much slower than the others");
}

}  // namespace tandem::sync
