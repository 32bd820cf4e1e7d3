#include "tandem/model/files/torch_optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <torch/nn/module.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/optimizer_entries.h"

namespace tandem::model {
namespace {

using Dict = c10::impl::GenericDict;
using List = c10::impl::GenericList;

Dict make_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }

using Entry = OptimizerEntry;

// The entries of all parameters, by parameter group and in the module's order, which is how torch.optim numbers them.
std::vector<std::vector<Entry>> entries_of(const Optimizer& optimizer, const FlatParameters& parameters) {
  const std::map<std::string, Entry> by_name = optimizer_entries(optimizer, parameters);
  const auto named = parameters.module().named_parameters();
  std::vector<std::vector<Entry>> groups(static_cast<std::size_t>(parameters.groups()));
  for (const auto& item : named) {
    const auto found = by_name.find(item.key());
    if (found != by_name.end()) groups[static_cast<std::size_t>(found->second.group)].push_back(found->second);
  }
  return groups;
}

// The options of a parameter group under torch.optim's names; those that Tandem does not have, with torch's defaults.
Dict options_of(const OptimizerOptions& options) {
  Dict dict = make_dict();
  for (const char* name : {"foreach", "fused"}) dict.insert(name, c10::IValue());
  for (const char* name : {"maximize", "capturable", "differentiable"}) dict.insert(name, false);
  if (const auto* adam = std::get_if<AdamOptions>(&options)) {
    dict.insert("betas", c10::ivalue::Tuple::create(adam->beta1, adam->beta2));
    dict.insert("eps", adam->eps);
    dict.insert("weight_decay", adam->weight_decay);
    dict.insert("amsgrad", false);
    dict.insert("decoupled_weight_decay", adam->decay == AdamOptions::Decay::kDecoupled);
  } else if (const auto* sgd = std::get_if<SgdOptions>(&options)) {
    dict.insert("momentum", sgd->momentum);
    dict.insert("dampening", sgd->dampening);
    dict.insert("weight_decay", sgd->weight_decay);
    dict.insert("nesterov", sgd->kind == SgdOptions::Momentum::kNesterov);
  } else if (const auto* rmsprop = std::get_if<RmspropOptions>(&options)) {
    dict.insert("alpha", rmsprop->alpha);
    dict.insert("eps", rmsprop->eps);
    dict.insert("weight_decay", rmsprop->weight_decay);
    dict.insert("momentum", rmsprop->momentum);
    dict.insert("centered", false);
  }
  return dict;
}

// The entry of a dict under `key`; None where there is none, no dict, or a key that no dict can have.
at::IValue entry_of(const at::IValue& dict, const at::IValue& key) {
  const bool is_key = key.isInt() || key.isString();
  if (!dict.isGenericDict() || !is_key || !dict.toGenericDict().contains(key)) return {};
  return dict.toGenericDict().at(key);
}

// A number, or a tensor of one element, as torch.optim keeps its steps.
double number_of(const std::string& name, const at::IValue& value) {
  double number = std::numeric_limits<double>::quiet_NaN();
  if (value.isTensor() && value.toTensor().numel() == 1) {
    number = value.toTensor().item<double>();
  } else if (value.isBool() || value.isInt() || value.isDouble()) {
    number = value.toScalar().toDouble();
  }
  if (!std::isfinite(number)) throw CheckpointError(concat("'", name, "' of the state is no finite number"));
  return number;
}

bool is_sgd(const OptimizerOptions& options) { return std::holds_alternative<SgdOptions>(options); }

bool is_on(const std::string& option, const at::IValue& value) {
  return (value.isBool() || value.isInt() || value.isDouble() || value.isTensor()) && number_of(option, value) != 0;
}

// Options that Tandem's optimizers do not have and that change what the state means: where they are on, or, of other
// optimizers, where they are there at all.
constexpr std::array kNotHere{"amsgrad", "centered", "maximize"};
constexpr std::array<std::pair<const char*, const char*>, 7> kOfOthers{{{"lambd", "ASGD"},
                                                                        {"lr_decay", "Adagrad"},
                                                                        {"max_iter", "LBFGS"},
                                                                        {"momentum_decay", "NAdam"},
                                                                        {"ns_steps", "Muon"},
                                                                        {"rho", "Adadelta"},
                                                                        {"etas", "Rprop"}}};
// By kind of OptimizerOptions: its name, and an option that torch.optim's state of it always has.
constexpr std::array<std::pair<const char*, const char*>, 3> kOwn{
    {{"Adam", "betas"}, {"SGD", "nesterov"}, {"RMSprop", "alpha"}}};

// Adds a line to `faults` for each option of a state's parameter group that says that the state is not one for `rule`.
void check_options(const at::IValue& group, std::size_t number, const OptimizerOptions& rule, std::string& faults) {
  const auto& [name, own] = kOwn.at(rule.index());
  for (const char* option : kNotHere) {
    if (!is_on(option, entry_of(group, option))) continue;
    faults += concat("\n  - parameter group ", number, " has ", option, "=True, which Tandem's ", name,
                     " does not have; train it in Python, or save the state of a torch.optim.", name, " without it");
  }
  for (const auto& [option, whose] : kOfOthers) {
    if (group.toGenericDict().contains(option)) {
      faults += concat("\n  - parameter group ", number, " has the option '", option, "' of torch.optim.", whose,
                       ", and the optimizer is ", name);
      return;
    }
  }
  const Dict options = group.toGenericDict();
  if (std::holds_alternative<AdamOptions>(rule) && options.contains("betas") && options.contains("weight_decay") &&
      !options.contains("amsgrad"))
    faults += concat("\n  - parameter group ", number, " has no 'amsgrad', as that of torch.optim.RAdam or Adamax");
  if (!options.contains(own))
    faults += concat("\n  - parameter group ", number, " has no '", own, "', which the state of ", name, " has");
}

// The state of one parameter as read from a state dict; empty: the parameter was never updated.
struct Loaded {
  std::vector<at::Tensor> moments;
  std::int64_t steps = 0;
};

// Reads the state of one parameter and adds a line to `faults` where it does not fit. SGD keeps no count of steps,
// which is then 1: any number above zero means that the momentum has begun.
Loaded load_entry(const Entry& entry, const at::IValue& from, bool counts_steps, std::string& faults) {
  if (!from.isGenericDict()) return {};
  Loaded loaded{.moments = {}, .steps = 1};
  for (const auto& [name, live] : entry.moments) {
    const at::IValue moment = entry_of(from, name);
    if (!moment.isTensor() && !counts_steps) return {};  // momentum before the first step is None
    if (!moment.isTensor() || moment.toTensor().sizes() != live.sizes()) {
      faults += concat("\n  - '", name, "' of '", entry.parameter, "' is ",
                       moment.isTensor() ? concat(moment.toTensor().sizes()) : "missing", "; expected ", live.sizes());
      return {};
    }
    loaded.moments.push_back(moment.toTensor());
  }
  if (!counts_steps) return loaded;
  const at::IValue steps = entry_of(from, "step");
  if (steps.isNone()) {
    faults += concat("\n  - 'step' of '", entry.parameter, "' is missing");
    return {};
  }
  constexpr double kMostSteps = 9e15;  // that a double counts one by one
  const double count = number_of("step", steps);
  if (count < 0 || count > kMostSteps) throw CheckpointError(concat("'step' of '", entry.parameter, "' is ", count));
  loaded.steps = static_cast<std::int64_t>(count);
  return loaded;
}

}  // namespace

// The layout of torch.optim: {"state": {number: {...}}, "param_groups": [{..., "params": [numbers]}]}. Parameters that
// were never updated have no entry in "state".
at::IValue torch_state_of(const Optimizer& optimizer, const FlatParameters& parameters) {
  Dict state = make_dict();
  List groups(c10::AnyType::get());
  std::int64_t number = 0;
  const auto entries = entries_of(optimizer, parameters);
  for (std::size_t g = 0; g < entries.size(); ++g) {
    const OptimizerOptions& options = optimizer.rules().at(g);
    List numbers(c10::AnyType::get());
    for (const Entry& entry : entries[g]) {
      numbers.push_back(number);
      const std::int64_t key = number++;
      const auto steps = entry.steps.item<std::int64_t>();
      if (steps == 0) continue;
      Dict of_parameter = make_dict();
      if (!is_sgd(options)) of_parameter.insert("step", at::full({}, static_cast<double>(steps), at::kFloat));
      for (const auto& [name, moment] : entry.moments) of_parameter.insert(name, moment);
      if (!of_parameter.empty()) state.insert(key, of_parameter);
    }
    Dict group = options_of(options);
    group.insert("lr", optimizer.learning_rate(g));
    group.insert("params", numbers);
    groups.push_back(group);
  }
  Dict all = make_dict();
  all.insert("state", state);
  all.insert("param_groups", groups);
  return all;
}

// First everything is read and compared; only when all fits are moments, counts of steps and the learning rate written.
void load_torch_state(const at::IValue& state, Optimizer& optimizer, const FlatParameters& parameters) {
  const at::IValue of_parameters = entry_of(state, "state"), of_groups = entry_of(state, "param_groups");
  if (!of_parameters.isGenericDict() || !of_groups.isList())
    throw CheckpointError("this is no state_dict() of an optimizer: no dict with state and param_groups");
  const auto groups = of_groups.toList();
  const auto entries = entries_of(optimizer, parameters);
  if (groups.size() != entries.size()) {
    throw CheckpointError(concat("the state has ", groups.size(), " parameter groups, the optimizer ", entries.size()));
  }
  std::string faults;
  std::vector<Loaded> all;
  std::optional<double> rate;
  for (std::size_t g = 0; g < entries.size(); ++g) {
    const at::IValue& group = groups.get(g);
    const at::IValue params = entry_of(group, "params");
    if (!params.isList()) throw CheckpointError(concat("parameter group ", g, " of the state has no list 'params'"));
    const auto numbers = params.toListRef();
    if (numbers.size() != entries[g].size()) {
      throw CheckpointError(concat("parameter group ", g, " of the state has ", numbers.size(),
                                   " parameters, the optimizer's ", entries[g].size()));
    }
    check_options(group, g, optimizer.rules().at(g), faults);
    if (const at::IValue lr = entry_of(group, "lr"); g == 0 && !lr.isNone()) rate = number_of("lr", lr);
    const bool counts_steps = !is_sgd(optimizer.rules().at(g));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      all.push_back(load_entry(entries[g][i], entry_of(of_parameters, numbers[i]), counts_steps, faults));
  }
  if (!faults.empty()) throw CheckpointError("the state is of another optimizer:" + faults);
  if (rate) optimizer.set_learning_rate(*rate);
  const at::NoGradGuard no_grad;
  std::size_t next = 0;
  for (const std::vector<Entry>& of_group : entries) {
    for (const Entry& entry : of_group) {
      const Loaded& loaded = all[next++];
      for (std::size_t m = 0; m < entry.moments.size(); ++m) {
        if (loaded.moments.empty()) {
          entry.moments[m].second.zero_();
        } else {
          entry.moments[m].second.copy_(loaded.moments[m]);
        }
      }
      entry.steps.fill_(loaded.steps);
    }
  }
  optimizer.state_changed();
}

}  // namespace tandem::model
