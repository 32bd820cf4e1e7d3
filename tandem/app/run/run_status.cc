#include "tandem/app/run/run_status.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "tandem/app/run/update_metrics.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/input_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::app {

void stamp(RunStatus& status) {
  status.written = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  status.written_at = time_since_boot();
}

double age_of(const RunStatus& status, const std::filesystem::path& file) {
  const BootTime now = time_since_boot();
  if (!now.boot.empty() && now.boot == status.written_at.boot)
    return std::max(0.0, now.seconds - status.written_at.seconds);
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  if (error) return 0;  // it is being replaced: it is new
  return std::max(0.0, std::chrono::duration<double>(std::filesystem::file_time_type::clock::now() - written).count());
}

std::string to_json(const RunStatus& status) {
  JsonWriter json;
  json.begin_object().key("env").value(status.env).key("algo").value(status.algo).key("state").value(status.state);
  json.key("written").value(status.written).key("boot").value(status.written_at.boot);
  json.key("written_since_boot_s").value(status.written_at.seconds).key("env_steps").value(status.env_steps);
  json.key("total_steps").value(status.total_steps).key("env_steps_per_s").value(status.env_steps_per_s);
  json.key("ranks").begin_array();
  for (const RankStatus& rank : status.ranks) {
    json.begin_object().key("host").value(rank.host).key("process").value(rank.process);
    json.key("phase").value(rank.phase).key("phase_s").value(rank.phase_s).key("silent_s").value(rank.silent_s);
    json.key("updates").value(rank.updates).key("env_steps_per_s").value(rank.env_steps_per_s);
    json.key("wait_share").value(rank.wait_share).end_object();
  }
  json.end_array().end_object();
  return json.text();
}

void write_status(const std::filesystem::path& file, const RunStatus& status) {
  // write_file() would sync the disk, twice a second: this file is worth less than that.
  const std::filesystem::path part = file.string() + ".part";
  const std::string line = to_json(status) + "\n";
  const Descriptor out = open_regular("write", part, O_WRONLY | O_CREAT | O_TRUNC);
  const auto give_up = [&](std::string_view action, const std::filesystem::path& path, int reason) {
    ::unlink(part.c_str());  // perhaps nobody writes here again
    throw_file_error(action, path, reason);
  };
  const ssize_t written = ::write(out.get(), line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) give_up("write", part, written < 0 ? errno : ENOSPC);
  if (std::rename(part.c_str(), file.c_str()) != 0) give_up("replace", file, errno);
}

RunStatus parse_status(std::string_view text) {
  const JsonValue json = read_json(text);
  RunStatus status{.env = json.at("env").as_string(),
                   .algo = json.at("algo").as_string(),
                   .state = json.at("state").as_string(),
                   .written = json.at("written").as_double(),
                   .env_steps = json.at("env_steps").as_int64(),
                   .total_steps = json.at("total_steps").as_int64(),
                   .env_steps_per_s = number(json, "env_steps_per_s")};
  // Those of older runs have none.
  if (const JsonValue* boot = json.find("boot"); boot != nullptr)
    status.written_at = {.boot = boot->as_string(), .seconds = json.at("written_since_boot_s").as_double()};
  for (const JsonValue& rank : json.at("ranks").as_array()) {
    status.ranks.push_back({.host = rank.at("host").as_string(),
                            .process = rank.at("process").as_int64(),
                            .phase = rank.at("phase").as_string(),
                            .phase_s = rank.at("phase_s").as_double(),
                            .silent_s = rank.at("silent_s").as_double(),
                            .updates = rank.at("updates").as_int64(),
                            .env_steps_per_s = number(rank, "env_steps_per_s"),
                            .wait_share = number(rank, "wait_share")});
  }
  return status;
}

std::optional<RunStatus> read_status(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  const std::string text = read_file(file, kLargestJsonFile);
  try {
    return parse_status(text);
  } catch (const JsonError& error) {
    throw DataError(concat(file.string(), " is no status of a run: ", error.what()));
  }
}

}  // namespace tandem::app
