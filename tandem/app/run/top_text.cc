// The table is built of three parts: a line of totals, a remark on what is wrong, and a row for each rank. Figures that
// are not known (NaN) are shown as "-".
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tandem/app/run/program_name.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/run/run_status.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::string seconds_text(double seconds) { return fixed(seconds, seconds < 10 ? 1 : 0) + " s"; }

std::string figure(double number) { return std::isnan(number) ? "-" : count_text(number); }

std::string share_text(double share) {
  return std::isnan(share) ? "-" : concat(static_cast<int>(std::lround(100 * share)), "%");
}

bool is_running(const RunSeen& run) { return run.status && run.status->state == kRunning; }

// Rank 0 wrote nothing for a while: either it is silent, or it is gone.
bool is_stale(const RunSeen& run) { return is_running(run) && run.age_s >= kSilentAfter; }

std::string state_text(const RunSeen& run) {
  if (is_running(run) && going(run) == Going::kEnded) return "ended without a word";
  return run.status->state;
}

std::string silent_text(const RunStatus& status) {
  std::string text;
  for (std::size_t rank = 0; rank < status.ranks.size(); ++rank) {
    const double silent = status.ranks[rank].silent_s;
    if (silent >= kSilentAfter)
      text += concat(text.empty() ? "silent: rank " : ", rank ", rank, " since ", seconds_text(silent));
  }
  return text.empty() ? "" : text + "\n";
}

// At most one remark is shown, the gravest first: rank 0 is gone, rank 0 is silent, other ranks are silent, the run has
// ended.
std::string remark(const RunSeen& run) {
  const std::string resume = concat("`", program_name(), " resume ", run.folder, "`");
  if (going(run) == Going::kEnded && is_running(run)) {
    return concat("rank 0 was killed, or its machine went down, ", seconds_text(run.age_s), " ago; ", resume,
                  " goes on from the last checkpoint\n");
  }
  if (is_stale(run)) {
    return concat("rank 0 is silent since ", seconds_text(run.age_s),
                  ", and what the others do is not known; the figures are from then\n");
  }
  if (is_running(run)) return silent_text(*run.status);
  return concat("the run has ended; `", program_name(), " inspect ", run.folder, "` shows how it went",
                run.status->state == "finished" ? "" : concat(", ", resume, " goes on with it"), "\n");
}

std::string row(const char* rank, const std::string& phase, const std::string& span, const std::string& updates,
                const std::string& rate, const std::string& wait, const std::string& sign, const std::string& host,
                const std::string& process) {
  char text[256];
  const int size = std::snprintf(text, sizeof(text), "%5s  %-6s  %7s  %8s  %8s  %5s  %10s  %-16s  %s", rank,
                                 phase.c_str(), span.c_str(), updates.c_str(), rate.c_str(), wait.c_str(), sign.c_str(),
                                 host.substr(0, 40).c_str(), process.c_str());
  return std::string(text, static_cast<std::size_t>(std::min<int>(size, sizeof(text) - 1))) + "\n";
}

}  // namespace

Going going(const RunSeen& run) {
  if (!run.status) return run.is_in_use ? Going::kOn : Going::kEnded;
  if (!is_running(run)) return Going::kEnded;
  return is_stale(run) && !run.is_in_use ? Going::kEnded : Going::kOn;
}

std::string top_text(const RunSeen& run, int most_ranks) {
  if (!run.status) {
    return concat(run.folder, run.is_in_use
                                  ? "  is starting\n"
                                  : concat("  has no status: it ended before its first update, or before tandem "
                                           "kept one; see `",
                                           program_name(), " inspect ", run.folder, "`\n"));
  }
  const RunStatus& status = *run.status;
  std::string text =
      concat(run.folder, "  ", status.env, " ", status.algo, "  ", state_text(run), "  ",
             count_text(static_cast<double>(status.env_steps)), "/",
             count_text(static_cast<double>(status.total_steps)), " steps  ", figure(status.env_steps_per_s), "/s\n");
  text += remark(run);
  text += row("RANK", "PHASE", "FOR", "UPDATES", "STEPS/S", "WAIT", "LAST SIGN", "HOST", "PID");
  // While rank 0 is silent, nobody adds to the silence of the others in the file, so the file's age is added here.
  const double age = is_running(run) ? run.age_s : 0;
  for (std::size_t i = 0; i < status.ranks.size(); ++i) {
    if (static_cast<int>(i) == most_ranks) {
      text += concat("... and ", status.ranks.size() - i, " more\n");
      break;
    }
    const RankStatus& rank = status.ranks[i];
    const bool has_ended = going(run) == Going::kEnded;
    text +=
        row(std::to_string(i).c_str(), has_ended ? "ended" : rank.phase, has_ended ? "-" : seconds_text(rank.phase_s),
            std::to_string(rank.updates), figure(rank.env_steps_per_s), share_text(rank.wait_share),
            has_ended ? "-" : seconds_text(rank.silent_s + age), rank.host, std::to_string(rank.process));
  }
  return text;
}

}  // namespace tandem::app
