#include "python/src/option_list.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>

#include "tandem/app/config/train_options.h"

namespace nb = nanobind;

namespace tandem::python {
namespace {

constexpr std::array kTypeNames{"integer", "number", "switch", "text", "path", "word"};
constexpr std::array kLifetimeNames{"run", "stage", "part", "call"};

nb::dict described(const app::Option& option) {
  nb::dict its;
  its["key"] = option.key();
  its["help"] = option.help();
  its["type"] = kTypeNames.at(static_cast<std::size_t>(option.value_type()));
  its["is_list"] = option.is_list();
  its["absent"] = option.is_optional() ? nb::cast(option.absent_word()) : nb::none();
  its["words"] = option.value_words();
  its["default"] = option.default_text();
  its["expected"] = option.expected();
  its["at_resume"] = app::may_be_given_at_resume(option);
  its["lifetime"] = kLifetimeNames.at(static_cast<std::size_t>(option.lifetime()));
  return its;
}

nb::list option_list() {
  app::TrainOptions defaults;
  const app::OptionTable table = app::option_table(defaults);
  nb::list all;
  for (const auto& option : table.options()) all.append(described(*option));
  return all;
}

nb::list families() {
  app::TrainOptions defaults;
  const app::OptionTable table = app::option_table(defaults);
  nb::list all;
  for (const app::OptionFamily& family : table.families()) all.append(nb::make_tuple(family.section, family.help));
  return all;
}

}  // namespace

void bind_option_list(nb::module_& module) {
  module.def("option_list", option_list, "All options of a training, in the order of help and config.yaml.");
  module.def("option_families", families, "Sections of whose keys users choose a part, with their help.");
}

}  // namespace tandem::python
