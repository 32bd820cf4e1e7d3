#include "tandem/sync/variables/variable_server.h"

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/device/one_core.h"
#include "tandem/sync/variables/variable_message.h"

namespace tandem::sync {

VariableServer::VariableServer(std::shared_ptr<VariableService> variables, std::vector<std::string> names,
                               ServerHooks hooks)
    : variables_(std::move(variables)),
      names_(std::move(names)),
      hooks_(std::move(hooks)),
      gradients_(names_.size()),
      server_([this](int replica, const net::Message& request,
                     const Limits& limits) { return serve(replica, request, limits); },
              [this](int member, const std::string& how) { lose(member, how); }) {
  variables_->on_failure([this](const std::exception_ptr& why) {
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& error) {
      server_.tell_all(error);
    }
  });
}

VariableServer::~VariableServer() { variables_->on_failure({}); }

// A connection has ended. Members beyond the replicas are successions, which the hook knows.
void VariableServer::lose(int member, const std::string& how) {
  const auto index = static_cast<std::size_t>(member);
  const std::string name = index < names_.size() ? names_[index] : concat("member ", member);
  const auto why = std::make_exception_ptr(PeerLost(member, concat(name, " is lost to the run: ", how)));
  if (hooks_.lose)
    hooks_.lose(member, why);
  else
    variables_->lose(member, why);
}

// One request of a replica, on the thread of its connection. A request that waits, as an exchange or a resume does,
// blocks that thread only.
net::Message VariableServer::serve(int replica, const net::Message& request, const Limits& limits) {
  device::use_one_core();  // updates of several replicas come one after the other, on as many threads
  if (hooks_.answer) {
    if (std::optional<net::Message> other = hooks_.answer(replica, request, limits)) return std::move(*other);
  }
  net::Message answer = message_of(kDone);
  const VariableService::Read read = [&](const StepReport& report, const std::vector<at::Tensor>& values) {
    answer = message_of(kValues, bytes_of(report), values);
  };
  switch (request.kind) {
    case kRest:
      variables_->rest(replica);
      break;
    case kResume:
      variables_->resume(replica, limits, read);
      break;
    case kLeave:
      variables_->leave(replica);
      break;
    case kDepart:
      variables_->depart(replica, limits,
                         [&](const std::vector<at::Tensor>& state) { answer = message_of(kState, {}, state); });
      break;
    default:
      exchange(replica, request, limits, read);
  }
  return answer;
}

// The gradient is read into memory that this replica's requests use again, and the variables may change it until the
// answer is written.
void VariableServer::exchange(int replica, const net::Message& request, const Limits& limits,
                              const VariableService::Read& read) {
  TANDEM_CHECK(request.kind == kExchange, "request ", request.kind, " to the shared variables");
  model::FlatParameters::Gradients& gradients = gradients_.at(static_cast<std::size_t>(replica));
  if (gradients.flat.empty()) gradients = variables_->make_gradients();
  MessageReader reader(request.bytes);
  const auto offer = reader.read<Offer>();
  const bool has_gradient = !reader.is_at_end();
  if (has_gradient) reader.read_gradient(variables_->layout(), gradients);
  reader.require_end();
  variables_->exchange(offer, has_gradient ? &gradients : nullptr, limits, read);
}

}  // namespace tandem::sync
