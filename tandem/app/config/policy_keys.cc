#include "tandem/app/config/policy_keys.h"

#include <array>
#include <utility>

#include "tandem/app/config/nearest_name.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr double kWidestLayer = 1 << 16;  // a bound against slips of the pen
constexpr std::string_view kAll = "policy.", kOne = "policies.";
constexpr const char* kOneSection = "policies";
constexpr std::array<std::string_view, 3> kOfAllAlike{"sde_sample_freq", "max_seq_len", "burn_in"};

void add_module_options(OptionSection section, PolicySettings& policy) {
  section.add("hidden", policy.hidden, "Units of each hidden layer.").within(1, kWidestLayer);
  section.add("activation", policy.activation, "Between the layers.").one_of({"tanh", "relu", "silu", "gelu", "elu"});
  section.add("trunks", policy.trunks, "Whether actor and critic share their hidden layers.")
      .one_of({"separate", "shared"});
  section
      .add("head", policy.head,
           "Distribution of actions; auto: categorical, multi_categorical or normal, as the actions are.")
      .one_of({"categorical", "multi_categorical", "normal", "squashed_normal", "state_dependent_noise"})
      .absent_as("auto");
  section.add("log_std_init", policy.log_std_init, "First logarithm of the actions' standard deviation.")
      .within(-20, 5);
  section.add("hidden_gain", policy.hidden_gain, "Scale of the hidden layers' first, orthogonal weights.").above(0);
  section.add("policy_gain", policy.policy_gain, "The same of the action head.").above(0);
  section.add("value_gain", policy.value_gain, "The same of the value head.").above(0);
  section
      .add("sde_sample_freq", policy.sde_sample_freq,
           "Steps that state_dependent_noise keeps its noise; 0: a whole rollout.")
      .at_least(0)
      .only_with("policy.head", "state_dependent_noise");
  section.add("torso", policy.torso.kind,
              "Convolutions in front of the hidden layers, for images: auto, nature_cnn for sides of 36 pixels or "
              "more, residual for smaller ones.");
  section.add("channels", policy.torso.channels, "Channels of each section, which halves the image.")
      .within(1, 4096)
      .only_with("policy.torso", "residual");
  section.add("residual_blocks", policy.torso.blocks, "Residual blocks of each section.")
      .within(0, 64)
      .only_with("policy.torso", "residual");
  section.add("recurrent", policy.recurrent, "A layer behind the hidden ones that remembers what was seen.");
}

void add_recurrent_options(OptionSection section, PolicySettings& policy) {
  section.add("recurrent_size", policy.recurrent_size, "Its units.").within(1, kWidestLayer);
  section.add("max_seq_len", policy.max_seq_len, "Steps that gradients flow back through it.").within(1, kLargestCount);
  section
      .add("burn_in", policy.burn_in,
           "Steps before those that only bring its state up to date, with the parameters of the moment.")
      .within(0, kLargestCount);
}

struct SplitKey {
  std::string name, key;  // of policies.NAME.KEY
};

// "" in place of what is missing.
SplitKey split(std::string_view key) {
  key.remove_prefix(std::min(key.size(), kOne.size()));
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return {std::string(key), ""};
  return {std::string(key.substr(0, dot)), std::string(key.substr(dot + 1))};
}

// As rl::is_plain_name(), which is of a layer that is not included here.
bool is_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string::npos;
}

// The option policies.NAME.KEY: the text of the value that is set, which the option policy.KEY reads and judges.
class OptionOfPolicy final : public Option {
 public:
  OptionOfPolicy(std::string key, SplitKey split, TrainOptions& options, std::unique_ptr<PolicySettings> settings,
                 std::unique_ptr<Option> reader)
      : Option(std::move(key), concat("Of policy ", split.name, " alone: ", reader->help())),
        split_(std::move(split)),
        options_(options),
        settings_(std::move(settings)),
        reader_(std::move(reader)) {
    default_text_ = reader_->default_text();
    like_ = reader_->key();
  }

  [[nodiscard]] std::string text() const override { return is_set() ? its().at(split_.key) : default_text_; }
  [[nodiscard]] std::string expected() const override { return reader_->expected(); }
  [[nodiscard]] bool is_absent() const override { return false; }  // "auto" is a value, other than that of all
  [[nodiscard]] bool is_list() const override { return reader_->is_list(); }
  [[nodiscard]] bool is_optional() const override { return false; }
  [[nodiscard]] ValueType value_type() const override { return reader_->value_type(); }
  [[nodiscard]] std::vector<std::string> value_words() const override { return reader_->value_words(); }

 private:
  std::optional<std::string> take(const RawValue& value) override {
    std::optional<std::string> problem = reader_->assign({reader_->key(), value});
    if (!problem) options_.policies[split_.name][split_.key] = reader_->text();
    return problem;
  }
  void restore() override {
    if (is_set()) options_.policies[split_.name].erase(split_.key);
  }
  [[nodiscard]] bool is_set() const { return options_.policies.contains(split_.name) && its().contains(split_.key); }
  [[nodiscard]] const std::map<std::string, std::string>& its() const { return options_.policies.at(split_.name); }

  const SplitKey split_;
  TrainOptions& options_;
  const std::unique_ptr<PolicySettings> settings_;  // the field of the next
  const std::unique_ptr<Option> reader_;
};

// Throws ConfigError when a single policy has no such key.
std::unique_ptr<Option> make_option(const std::string& key, TrainOptions& options) {
  SplitKey of = split(key);
  if (!is_name(of.name) || of.key.empty())
    throw ConfigError("name a policy (lower-case letters, digits, '_', '-') and a key, as in policies.hunter.hidden");
  if (std::ranges::count(kOfAllAlike, of.key) > 0)
    throw ConfigError(concat("is the same for all policies; set ", kAll, of.key));
  auto settings = std::make_unique<PolicySettings>();
  OptionTable all;
  add_policy_keys(all, *settings);
  const std::string like = concat(kAll, of.key);
  if (all.find(like) == nullptr) {
    std::vector<std::string> keys;
    for (const auto& option : all.options()) keys.push_back(option->key().substr(kAll.size()));
    const std::optional<std::string> nearest = nearest_name(of.key, keys);
    throw ConfigError(concat("policies have no such key; ",
                             nearest ? concat("the nearest one is ", *nearest) : concat("there are ", joined(keys))));
  }
  std::unique_ptr<Option> reader = all.release(like);
  return std::make_unique<OptionOfPolicy>(key, std::move(of), options, std::move(settings), std::move(reader));
}

// Puts the policy's own values in the place of those in `settings`, to which the table is bound.
void assign_own(const std::map<std::string, std::string>& own, OptionTable& table) {
  for (const auto& [key, text] : own) {
    const std::optional<std::string> problem = table.resolve(concat(kAll, key), text, {});
    TANDEM_CHECK(!problem, *problem);  // the same text was read before
  }
}

}  // namespace

void add_policy_keys(OptionTable& table, PolicySettings& policy) {
  add_module_options({table, "policy"}, policy);
  add_recurrent_options({table, "policy", {"policy.recurrent", {"lstm", "gru"}}}, policy);
}

void add_policies_keys(OptionTable& table, TrainOptions& options) {
  table.add_family({.section = kOneSection,
                    .help = "NAME.KEY: of one policy of an environment with several agents, in place of policy.KEY.",
                    .make = [&options](const std::string& key) { return make_option(key, options); }});
  for (const auto& [name, own] : options.policies) {
    for (const auto& [key, text] : own) table.add_of_family(concat(kOne, name, ".", key));
  }
}

PolicySettings settings_of_policy(const TrainOptions& options, const std::string& name) {
  PolicySettings settings = options.policy;
  const auto own = options.policies.find(name);
  if (own == options.policies.end()) return settings;
  OptionTable table;
  add_policy_keys(table, settings);
  assign_own(own->second, table);
  return settings;
}

bool any_remembers(const TrainOptions& options) {
  const auto remembers = [&options](const auto& policy) {
    return settings_of_policy(options, policy.first).recurrent != Recurrence::kNone;
  };
  return options.policy.recurrent != Recurrence::kNone || std::ranges::any_of(options.policies, remembers);
}

namespace {

// The parameters of the layers whose sizes the settings name, without those that depend on the environment.
double least_parameters(const PolicySettings& policy) {
  double dense = 0;
  for (std::size_t i = 1; i < policy.hidden.size(); ++i)
    dense += static_cast<double>(policy.hidden[i - 1]) * static_cast<double>(policy.hidden[i]);
  if (policy.trunks == "separate") dense *= 2;
  const auto size = static_cast<double>(policy.recurrent_size);
  const double gates = policy.recurrent == Recurrence::kNone ? 0 : policy.recurrent == Recurrence::kLstm ? 4 : 3;
  double convolutions = 0, before = 0;
  if (policy.torso.kind == rl::Torso::kResidual) {
    for (const std::int64_t channels : policy.torso.channels) {
      const auto here = static_cast<double>(channels);
      convolutions += 9 * here * (before + 2 * static_cast<double>(policy.torso.blocks) * here);
      before = here;
    }
  }
  return dense + gates * size * size + convolutions;
}

}  // namespace

// Layers of 65536 by 65536 would keep the machine busy for half a minute before it finds that it has no more memory.
void check_policies_sizes(Rules& rules) {
  constexpr double kBytes = 4 * 4;  // of a parameter with its gradient and two moments, in single precision
  const auto machine = static_cast<double>(machine_memory());
  const auto check = [&](const std::string& key, const PolicySettings& policy) {
    const double bytes = kBytes * least_parameters(policy);
    if (bytes <= machine) return;
    rules.fault(
        key, concat("the policy's layers would have ", least_parameters(policy),
                    " parameters or more; with gradients and the optimizer's moments they take ", fixed(bytes / 1e9, 0),
                    " GB, and this machine has ", fixed(machine / 1e9, 0), " GB of memory: choose smaller layers"));
  };
  check("policy.hidden", rules.options().policy);
  for (const auto& [name, own] : rules.options().policies) {
    if (own.contains("hidden")) check(concat(kOne, name, ".hidden"), settings_of_policy(rules.options(), name));
  }
}

// As check_effects() of configuration.cc, by what is in force for the one policy.
void check_policies_effects(Rules& rules) {
  for (const auto& [name, own] : rules.options().policies) {
    PolicySettings settings = rules.options().policy;
    OptionTable table;
    add_policy_keys(table, settings);
    assign_own(own, table);
    for (const auto& [key, text] : own) {
      const std::string asked = concat(kOne, name, ".", key);
      const Option& option = table.at(concat(kAll, key));
      if (rules.table().at(asked).origin().layer < Layer::kFile || table.has_effect(option)) continue;
      const Option::Needed& needed = option.needed();
      rules.fault(asked, concat("has no effect without ", kOne, name, ".", needed.key.substr(kAll.size()), ": ",
                                list_of_words(needed.texts)));
    }
  }
}

}  // namespace tandem::app
