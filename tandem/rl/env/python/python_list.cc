#include "tandem/rl/env/python/python_list.h"

#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/python/python_spec.h"

namespace tandem::rl {
namespace {

// 5,000 names of a few words each (MOST_LISTED of worker/listing.py), and as many packages.
constexpr Bounds kListBounds{.bytes = kMostDescription, .items = 100'000, .depth = 8};

std::optional<std::string> text_or_none(const JsonValue& value) {
  return value.is_null() ? std::nullopt : std::optional(value.as_string());
}

PythonList list_of(const JsonValue& value) {
  PythonList list{.python = value.at("python").as_string(),
                  .version = value.at("version").as_string(),
                  .count = value.at("count").as_int64()};
  for (const JsonValue& its : value.at("names").as_array()) {
    list.names.push_back(
        {.name = its.at("name").as_string(), .of = its.at("of").as_string(), .lacks = text_or_none(its.at("lacks"))});
  }
  for (const JsonValue& its : value.at("packages").as_array()) {
    list.packages.push_back({.name = its.at("name").as_string(),
                             .version = its.at("version").as_string(),
                             .lists = text_or_none(its.at("lists"))});
  }
  for (const JsonValue& its : value.at("absent").as_array()) list.absent.push_back(its.as_string());
  return list;
}

}  // namespace

bool is_python_list(std::string_view name) {
  return name == "ALE/" || ((name.starts_with("gymnasium:") || name.starts_with("pettingzoo:")) && name.ends_with(":"));
}

PythonList read_python_list(const std::string& name, std::string_view json) {
  try {
    return list_of(read_json(json, kListBounds));
  } catch (const JsonError& error) {
    throw ConfigError(concat(name, ": what its worker says of it cannot be used: ", error.what()));
  }
}

}  // namespace tandem::rl
