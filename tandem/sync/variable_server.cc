#include "tandem/sync/variable_server.h"

#include <ATen/Parallel.h>

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/sync/variable_message.h"

namespace tandem::sync {
namespace {

// Updates of several replicas come one after the other on as many threads; none needs a pool of its own.
void use_one_thread() {
  thread_local bool is_set = false;
  if (!is_set) at::set_num_threads(1);
  is_set = true;
}

}  // namespace

VariableServer::VariableServer(std::shared_ptr<SharedVariables> variables, std::vector<std::string> names)
    : variables_(std::move(variables)),
      names_(std::move(names)),
      gradients_(names_.size()),
      server_([this](int replica, const net::Message& request,
                     const Limits& limits) { return serve(replica, request, limits); },
              [this](int replica, const std::string& how) {
                const std::string& name = names_.at(static_cast<std::size_t>(replica));
                variables_->lose(replica, std::make_exception_ptr(PeerLost(
                                              replica, concat(name, " is lost to the asynchronous run: ", how))));
              }) {
  variables_->on_failure([this](const std::exception_ptr& why) {
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& error) {
      server_.tell_all(error);
    }
  });
}

VariableServer::~VariableServer() { variables_->on_failure({}); }

net::Message VariableServer::serve(int replica, const net::Message& request, const Limits& limits) {
  use_one_thread();
  if (request.kind == kLeave) {
    variables_->leave(replica);
    return {.kind = kDone, .patience = -1, .bytes = {}};
  }
  TANDEM_CHECK(request.kind == kExchange, "request ", request.kind, " to the shared variables");
  model::FlatParameters::Gradients& gradients = gradients_.at(static_cast<std::size_t>(replica));
  if (gradients.flat.empty()) gradients = variables_->make_gradients();
  Offer offer;
  StalenessLedger::Entry entry;
  if (read_offer(request, variables_->layout(), offer, gradients)) {
    entry = variables_->push(offer, gradients);
  } else {
    variables_->pass(replica);
  }
  variables_->await_turn(replica, limits);
  net::Message answer;
  variables_->pull(replica,
                   [&](const std::vector<model::FlatBuffer>& values) { answer = values_message(entry, values); });
  return answer;
}

}  // namespace tandem::sync
