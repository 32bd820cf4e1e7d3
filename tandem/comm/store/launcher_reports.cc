#include "tandem/comm/store/launcher_reports.h"

namespace tandem::comm {

std::unique_ptr<Store> rendezvous_part(Store& store, const std::string& run_id, int restart_count) {
  return store.part(concat("tandem/", run_id, "/", restart_count, "/rendezvous"));
}

void report_end(Store& part, const Life& who, const std::string& how) { part.set(end_key(who), how); }

bool is_left_behind(Store& part, const Life& who) { return part.find(left_key(who)).has_value(); }

// A process that is let in to a run that goes on is a member: its peers decide about it.
std::optional<std::chrono::milliseconds> patience_with_stopped(Store& part, const Life& who) {
  if (!part.find(kBegunKey)) return std::nullopt;
  if (part.find(let_in_key(who)) && !part.find(kOverKey)) return std::nullopt;
  return deadline_of_run(part);
}

std::optional<std::chrono::milliseconds> deadline_of_run(Store& part) {
  const std::optional<std::string> deadline = part.find(kDeadlineKey);
  return deadline ? std::optional(std::chrono::milliseconds(std::stoll(*deadline))) : std::nullopt;
}

}  // namespace tandem::comm
