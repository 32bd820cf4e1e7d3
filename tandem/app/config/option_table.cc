// A table is filled once, by option_table(), and searched in order: it is asked when a run is configured, not while it
// trains.
#include "tandem/app/config/option_table.h"

#include <algorithm>
#include <array>

#include "tandem/app/config/nearest_name.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

struct OtherName {
  std::string_view key, instead;
};

// Keys of RLlib's PPO and DD-PPO, as its versions 0.8 to 2.5 have them.
constexpr std::array kForeign{
    OtherName{
        "train_batch_size",
        "the batch follows from others: num_envs (or dd_ppo.envs_per_rank) environments of rollout_steps steps each"},
    OtherName{"rollout_fragment_length", "here it is rollout_steps"},
    OtherName{"sample_batch_size", "here it is rollout_steps"},
    OtherName{"sgd_minibatch_size",
              "here it is dd_ppo.minibatch_size_per_rank, on each rank, or ppo.minibatch_size, over all of them"},
    OtherName{"num_sgd_iter", "here it is ppo.epochs"},
    OtherName{"num_envs_per_worker", "here it is dd_ppo.envs_per_rank, or num_envs for the whole run"},
    OtherName{"num_workers", "ranks are started by --ranks or a launcher, and there is at least one"},
    OtherName{"num_rollout_workers", "ranks are started by --ranks or a launcher, and there is at least one"},
    OtherName{"num_gpus", "every rank learns on its own devices: name them with devices"},
    OtherName{"num_gpus_per_worker", "every rank learns on its own devices: name them with devices"},
    OtherName{"batch_mode", "here it is ppo.batch_mode"},
    OtherName{"framework", "there is one, LibTorch; leave it out"},
    OtherName{"torch_distributed_backend", "ranks exchange as the flag --backend says"},
    OtherName{"keep_local_weights_in_sync", "the parameters of all ranks always are; leave it out"},
    OtherName{"kl_coeff", "here it is ppo.kl_coef"},
    OtherName{"lr", "here it is ppo.learning_rate"},
    OtherName{"lr_schedule", "here it is ppo.learning_rate_schedule"},
    OtherName{"entropy_coeff", "here it is ppo.entropy_coef"},
    OtherName{"entropy_coeff_schedule", "here it is ppo.entropy_coef_schedule"},
    OtherName{"vf_loss_coeff", "here it is ppo.value_coef"},
    OtherName{"vf_clip_param", "here it is ppo.clip_range_value"},
    OtherName{"clip_param", "here it is ppo.clip_range"},
    OtherName{"grad_clip", "here it is ppo.max_grad_norm"},
    OtherName{"lambda", "here it is ppo.gae_lambda"},
};

// Keys under which earlier builds recorded options that are now common to algorithms.
constexpr std::array kFormer{
    OtherName{"dd_ppo.survivors", "survivors"},
    OtherName{"dd_ppo.deadline_seconds", "deadline_seconds"},
};

// A former name is read silently, so an old config.yaml can be resumed.
std::string_view current_name(std::string_view key) {
  const auto* const found = std::ranges::find(kFormer, key, &OtherName::key);
  return found == kFormer.end() ? key : found->instead;
}

// Which option stands for a key of another library; nothing for keys of no library that is known. The last part of a
// dotted key counts.
std::optional<std::string> instead_of_foreign(std::string_view key) {
  const std::string_view last = key.substr(key.rfind('.') + 1);  // npos + 1 is 0
  const auto found = std::ranges::find(kForeign, last, &OtherName::key);
  return found == kForeign.end() ? std::nullopt : std::optional<std::string>(found->instead);
}

// Where the path in a text begins; npos when it has none.
std::size_t path_in(const std::string& text, KeptPath kept) {
  if (kept == KeptPath::kText) return 0;
  if (kept == KeptPath::kProgram) return text.find('/') == std::string::npos ? std::string::npos : 0;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return equals;
  const std::size_t begin = text.find_first_not_of(' ', equals + 1);
  const std::string_view value = begin == std::string::npos ? "" : std::string_view(text).substr(begin);
  return value.starts_with("./") || value.starts_with("../") ? begin : std::string::npos;
}

}  // namespace

// `above` with `from` is no pair that an option has.
std::string Range::text() const {
  if (from && to) return "from " + write_number(*from) + " to " + write_number(*to);
  if (above && to) return "above " + write_number(*above) + ", at most " + write_number(*to);
  if (above) return "above " + write_number(*above);
  if (from) return "at least " + write_number(*from);
  if (to) return "at most " + write_number(*to);
  return "";
}

Option& Option::absent_as(std::string word) {
  absent_word_ = std::move(word);
  // The default may be the absent word, which has just changed.
  default_text_ = text();
  return *this;
}

std::optional<std::string> Option::assign(const Setting& setting) {
  std::optional<std::string> problem = take(setting.value);
  if (problem) {
    // Stays so when a stronger layer sets a good value: the fault ends the configuration anyway.
    is_faulty_ = true;
  } else {
    origin_ = setting.origin;
  }
  return problem;
}

void Option::clear() {
  restore();
  origin_ = {};
}

std::string Option::expected_value(const std::string& kind) const {
  if (!words_.empty()) return list_of_words(words_);
  const std::string bounds = range_.text();
  return bounds.empty() ? kind : kind + " " + bounds;
}

// The options of a call are named one by one: a new one is refused until somebody has thought of it.
bool may_be_given_at_resume(const Option& option) {
  if (option.lifetime() == Lifetime::kCall) return option.key() == "quiet" || option.key() == "profile";
  return option.lifetime() != Lifetime::kRun;
}

bool may_be_given_to_tune(const Option& option) {
  return option.lifetime() != Lifetime::kCall || option.key() == "quiet";
}

// "a,,b" has an empty item, which the element's type then accepts or refuses. A comma within brackets belongs to its
// item: "gravity=uniform(0.8, 1.2)".
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);  // as YAML writes lists
  if (text.empty()) return items;
  std::size_t begin = 0;
  while (true) {
    std::size_t comma = begin;
    for (int depth = 0; comma < text.size() && (text[comma] != ',' || depth > 0); ++comma) {
      if (text[comma] == '(') ++depth;
      if (text[comma] == ')') --depth;
    }
    if (comma == text.size()) comma = std::string_view::npos;
    std::string item(text.substr(begin, comma == std::string_view::npos ? comma : comma - begin));
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    items.push_back(std::move(item));
    if (comma == std::string_view::npos) return items;
    begin = comma + 1;
  }
}

Option& OptionTable::add(std::unique_ptr<Option> option) {
  TANDEM_CHECK(find(option->key()) == nullptr, "the key ", option->key(), " exists already");
  return *options_.emplace_back(std::move(option));
}

Option* OptionTable::find_mutable(std::string_view key) const {
  const auto found = std::ranges::find_if(options_, [&](const auto& option) { return option->key() == key; });
  return found == options_.end() ? nullptr : found->get();
}

const Option& OptionTable::at(std::string_view key) const {
  const Option* option = find(key);
  TANDEM_CHECK(option != nullptr, "there is no option ", key);
  return *option;
}

std::string Option::Needed::text() const { return texts.empty() ? key : concat(key, ": ", list_of_words(texts)); }

bool Option::Needed::is_met_by(const Option& option) const {
  return texts.empty() ? !option.is_absent() : std::ranges::count(texts, option.text()) > 0;
}

bool OptionTable::has_effect(const Option& option) const {
  const Option::Needed& needed = option.needed();
  if (needed.key.empty() || needed.is_met_by(at(needed.key))) return true;
  return std::ranges::any_of(
      options_, [&needed](const auto& other) { return other->like() == needed.key && needed.is_met_by(*other); });
}

std::vector<std::string> OptionTable::rivals_of(const Option& option) const {
  std::vector<std::string> keys = option.rivals();
  for (const auto& other : options_) {
    if (std::ranges::count(other->rivals(), option.key()) > 0 && std::ranges::count(keys, other->key()) == 0)
      keys.push_back(other->key());
  }
  return keys;
}

const Option* OptionTable::first_of_section(const std::string& name) const {
  const auto found =
      std::ranges::find_if(options_, [&](const auto& option) { return option->key().starts_with(name + "."); });
  return found == options_.end() ? nullptr : found->get();
}

// From the most telling answer to the least: a section, another library's key, the nearest key, the list of all.
std::string OptionTable::unknown(const Setting& setting) const {
  if (const Option* first = first_of_section(setting.key))
    return describe_fault(setting, "this is a section; name a key in it, such as " + first->key());
  if (const auto instead = instead_of_foreign(setting.key))
    return describe_fault(setting, concat("there is no such key; ", *instead));
  std::vector<std::string> names;
  for (const auto& option : options_) {
    const std::string& key = option->key();
    const bool is_section = setting.value.kind == RawValue::Kind::kSection;
    if (!is_section || key.find('.') != std::string::npos)
      names.push_back(is_section ? key.substr(0, key.find('.')) : key);
  }
  const std::optional<std::string> nearest = nearest_name(setting.key, names);
  if (nearest) return describe_fault(setting, "there is no such key; the nearest one is " + *nearest);
  return describe_fault(setting, "there is no such key; `tandem train --help` lists all of them");
}

Option& OptionTable::add_of_family(const std::string& key) {
  const OptionFamily* family = family_of(key);
  TANDEM_CHECK(family != nullptr, "no family has the key ", key);
  return add(family->make(key));
}

std::unique_ptr<Option> OptionTable::release(std::string_view key) {
  const auto found = std::ranges::find_if(options_, [&](const auto& option) { return option->key() == key; });
  TANDEM_CHECK(found != options_.end(), "there is no option ", key);
  std::unique_ptr<Option> option = std::move(*found);
  options_.erase(found);
  return option;
}

const OptionFamily* OptionTable::family_of(std::string_view key) const {
  const auto found = std::ranges::find(families_, key.substr(0, key.find('.')), &OptionFamily::section);
  return found == families_.end() ? nullptr : &*found;
}

bool OptionTable::is_section(const std::string& key) const {
  return first_of_section(key) != nullptr || (family_of(key) != nullptr && std::ranges::count(key, '.') < 2);
}

Option* OptionTable::find_or_make(const Setting& setting, std::string& fault) {
  if (Option* option = find_mutable(setting.key)) return option;
  try {
    if (family_of(setting.key) != nullptr) return &add_of_family(setting.key);
    fault = unknown(setting);
  } catch (const ConfigError& error) {
    fault = describe_fault(setting, error.what());
  }
  return nullptr;
}

std::vector<std::string> OptionTable::assign(std::vector<Setting> layer) {
  constexpr int kMostUnknown = 20;  // more of them say nothing more: this is another program's file
  std::vector<std::string> faults;
  GivenSettings given;
  int unknown_keys = 0;
  for (Setting& setting : layer) setting.key = current_name(setting.key);
  for (const Setting& setting : layer) {
    std::string fault;
    Option* option = find_or_make(setting, fault);
    if (option == nullptr) {
      if (++unknown_keys <= kMostUnknown) faults.push_back(std::move(fault));
      continue;
    }
    const auto [first, is_new] = given.try_emplace(setting.key, &setting);
    if (!is_new) {
      faults.push_back(describe_fault(setting, "was given already, as " + describe(first->second->value) + " (" +
                                                   first->second->origin.place + "); give it once"));
      continue;
    }
    if (const auto problem = option->assign(setting)) {
      faults.push_back(describe_fault(setting, *problem));
      continue;
    }
    // "none" contradicts nothing and leaves the rival as it is.
    if (option->is_absent()) continue;
    if (const auto problem = contradiction(*option, given)) {
      option->mark_faulty();
      faults.push_back(describe_fault(setting, *problem));
      continue;
    }
    // A weaker layer set the rival.
    for (const std::string& rival : rivals_of(*option)) find_mutable(rival)->clear();
  }
  if (unknown_keys > kMostUnknown) faults.push_back(concat(unknown_keys - kMostUnknown, " more keys do not exist"));
  return faults;
}

// With what else the layer sets.
std::optional<std::string> OptionTable::contradiction(const Option& option, const GivenSettings& given) const {
  for (const std::string& key : rivals_of(option)) {
    const auto rival = given.find(key);
    if (rival == given.end() || at(key).is_absent()) continue;
    return concat("contradicts ", key, " = ", describe(rival->second->value), " (", rival->second->origin.place,
                  "); give one of the two");
  }
  return std::nullopt;
}

std::optional<std::string> OptionTable::resolve(std::string_view key, const std::string& text, const Origin& origin) {
  const Setting setting{std::string(key), RawValue::of_text(text), origin};
  const std::optional<std::string> problem = find_mutable(key)->assign(setting);
  return problem ? std::optional(describe_fault(setting, *problem)) : std::nullopt;
}

std::string OptionTable::fault(std::string_view key, const std::string& problem) const {
  const Option& option = at(key);
  Origin origin = option.origin();
  if (origin.layer == Layer::kDefault) origin.place = "the default";
  return describe_fault({option.key(), RawValue::of_text(option.text()), origin}, problem);
}

void make_absolute(const OptionTable& table, std::vector<Setting>& settings, const std::filesystem::path& folder) {
  for (Setting& setting : settings) {
    // Unknown keys pass: the table reports them.
    const Option* option = table.find(setting.key);
    if (option == nullptr || option->kept_path() == KeptPath::kNothing) continue;
    const auto whole = [&](std::string& text) {
      const std::size_t begin = path_in(text, option->kept_path());
      if (begin < text.size()) text = text.substr(0, begin) + (folder / text.substr(begin)).lexically_normal().string();
    };
    if (!option->is_list()) {
      if (setting.value.text != option->absent_word()) whole(setting.value.text);
      continue;
    }
    if (setting.value.kind == RawValue::Kind::kText) setting.value = RawValue::of_list(split_list(setting.value.text));
    for (std::string& item : setting.value.items) whole(item);
  }
}

}  // namespace tandem::app
