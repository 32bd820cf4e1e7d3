#include "tandem/comm/store/launcher_environment.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/last_word.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

constexpr int kMostRanks = 1'000'000, kMostRestarts = 1'000'000'000, kLastPort = 65535;

// Plan: find the innermost launcher; read the ranks from that launcher's variables; refuse RANK and WORLD_SIZE that
// contradict another launcher; read the run's name, its restarts and what happens on a death; find the store's address.
// Faults are gathered on the way, so that the user sees all of them at once.

// Reads variables and gathers their faults. Threads: single-thread.
class LauncherVariables {
 public:
  explicit LauncherVariables(const Lookup& lookup) : lookup_(lookup) {}

  // Returns nothing for a variable that is not set, or empty.
  [[nodiscard]] std::optional<std::string> text(const std::string& name) const {
    std::optional<std::string> value = lookup_(name);
    if (value && value->empty()) value.reset();
    return value;
  }
  [[nodiscard]] bool has(const std::string& name) const { return text(name).has_value(); }
  // Returns the name of the first of the variables that is set; if none is set, the last name.
  [[nodiscard]] std::string first_set(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      if (has(name)) return name;
    }
    return names.back();
  }

  // Returns a whole number in [least, most]. Another value is a fault, for which nothing is returned.
  std::optional<int> number(const std::string& name, int least, int most) {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    if (const auto number = parse_number<int>(*value); number && *number >= least && *number <= most) return number;
    add_fault(concat(name, " = ", *value, ": expected an integer from ", least, " to ", most));
    return std::nullopt;
  }
  // As number(), but a variable that is not set is a fault, too. `meaning` says what it is needed for.
  std::optional<int> required_number(const std::string& name, int least, int most, const std::string& meaning) {
    if (!has(name)) add_fault(concat(name, " is not set: ", meaning));
    return number(name, least, most);
  }

  void add_fault(const std::string& fault) { faults_.push_back(fault); }
  void finish() const {
    if (!faults_.empty()) throw ConfigError(faults_);
  }

 private:
  const Lookup& lookup_;
  std::vector<std::string> faults_;
};

// The names of one launcher's variables. The run's name only has to be the same on all ranks, and another one for
// another run.
struct VariableNames {
  std::string rank, world_size, local_rank, local_size, run_id;
};

Launcher find_launcher(const LauncherVariables& variables) {
  if (variables.has("TANDEM_RUN_ID")) return Launcher::kTandem;
  if (variables.has("TORCHELASTIC_RUN_ID")) return Launcher::kTorchrun;
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE")) return Launcher::kOpenMpi;
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return Launcher::kVariables;
  if (variables.has("SLURM_PROCID")) return Launcher::kSlurm;
  return Launcher::kSingleProcess;
}

VariableNames names_for(Launcher launcher, const LauncherVariables& variables) {
  switch (launcher) {
    case Launcher::kOpenMpi:
      return {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
              "OMPI_COMM_WORLD_LOCAL_SIZE", variables.first_set({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})};
    case Launcher::kSlurm:  // the step's variables come first: a job may run several steps, of different sizes
      return {"SLURM_PROCID", variables.first_set({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}), "SLURM_LOCALID", "",
              "SLURM_JOB_ID"};
    default:
      return {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
              launcher == Launcher::kTandem     ? "TANDEM_RUN_ID"
              : launcher == Launcher::kTorchrun ? "TORCHELASTIC_RUN_ID"
                                                : ""};
  }
}

void require_below(const std::string& name, std::optional<int> value, const std::string& count_name,
                   std::optional<int> count, LauncherVariables& variables) {
  if (!value || !count || *value < *count) return;
  variables.add_fault(
      concat(name, " = ", *value, ": ", count_name, " is ", *count, ", so it is from 0 to ", *count - 1));
}

void read_ranks(const VariableNames& names, LauncherVariables& variables, LauncherEnvironment& found) {
  const auto size = variables.required_number(names.world_size, 1, kMostRanks, "it is the number of ranks");
  const auto rank = variables.required_number(names.rank, 0, kMostRanks - 1,
                                              "it is the number of this process, below " + names.world_size);
  // A user who starts processes by hand, or one process a container, may leave the local rank out.
  const bool is_left_out = found.launcher == Launcher::kVariables && !variables.has(names.local_rank);
  const auto local_rank = is_left_out ? std::optional(0)
                                      : variables.required_number(names.local_rank, 0, kMostRanks - 1,
                                                                  concat(name_of(found.launcher), " sets it"));
  if (!names.local_size.empty()) found.local_size = variables.number(names.local_size, 1, kMostRanks);
  require_below(names.rank, rank, names.world_size, size, variables);
  require_below(names.local_rank, local_rank, names.local_size, found.local_size, variables);
  if (found.local_size && size && *found.local_size > *size) {
    variables.add_fault(concat(names.local_size, " = ", *found.local_size, ": more than all ranks, of which ",
                               names.world_size, " says there are ", *size));
  }
  found.rank = rank.value_or(0);
  found.world_size = size.value_or(kMostRanks);  // after a fault, what several ranks need is checked all the same
  found.local_rank = local_rank.value_or(0);
}

// RANK and WORLD_SIZE may be left from an earlier `export`: beside Open MPI or Slurm they must have the same values.
void compare(const char* name, const std::string& other, LauncherVariables& variables) {
  const auto mine = variables.text(name), theirs = variables.text(other);
  if (mine && theirs && *mine != *theirs) {
    variables.add_fault(concat(name, " = ", *mine, ": contradicts ", other, " = ", *theirs, "; unset one of them"));
  }
}

// RANK and WORLD_SIZE must agree with Open MPI's variables where those count, and with Slurm's where RANK counts within
// a job of several tasks.
void find_contradictions(Launcher launcher, LauncherVariables& variables) {
  const bool is_of_job = variables.text("SLURM_NTASKS").value_or("1") != "1" && variables.has("SLURM_PROCID");
  Launcher other = Launcher::kSingleProcess;
  if (launcher == Launcher::kOpenMpi) other = launcher;
  if (launcher == Launcher::kVariables && is_of_job) other = Launcher::kSlurm;
  if (other == Launcher::kSingleProcess) return;
  const VariableNames names = names_for(other, variables);
  compare("RANK", names.rank, variables);
  compare("WORLD_SIZE", names.world_size, variables);
}

// A secret that somebody could guess protects nothing; a longer one is no secret but another file.
constexpr std::size_t kLeastSecret = 16, kMostSecret = 4096;

// The first line of the file, which holds a secret.
std::string secret_in(const std::string& file, LauncherVariables& variables) {
  std::string line;
  std::ifstream in(file);
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || !in) {
    variables.add_fault(concat("TANDEM_RUN_SECRET_FILE = ", file, ": no file that can be read"));
    return "";
  }
  for (char each = 0; line.size() <= kMostSecret && in.get(each) && each != '\n';) line += each;
  return line;
}

void read_secret(LauncherVariables& variables, LauncherEnvironment& found) {
  const auto secret = variables.text("TANDEM_RUN_SECRET"), file = variables.text("TANDEM_RUN_SECRET_FILE");
  if (!secret && !file) return;
  if (secret && file)
    return variables.add_fault("TANDEM_RUN_SECRET and TANDEM_RUN_SECRET_FILE are both set: unset one");
  found.secret = secret ? *secret : secret_in(*file, variables);
  if (found.secret.size() >= kLeastSecret && found.secret.size() <= kMostSecret) return;
  variables.add_fault(concat("the run secret of ", secret ? "TANDEM_RUN_SECRET" : "TANDEM_RUN_SECRET_FILE", " has ",
                             found.secret.size(), " characters: expected ", kLeastSecret, " to ", kMostSecret,
                             ", that nobody guesses, as `openssl rand -hex 32` makes"));
}

// Returns a port that all ranks of a run compute alike, below the ports that the system gives out by itself.
int port_of_run(const std::string& run_id) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : run_id) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<int>(20000 + hash % 10000);
}

// The address of rank 0's host: as the user says; loopback if Open MPI has all ranks on one host; the first node of a
// Slurm step or job. Nothing when it is not known.
std::optional<std::string> master_address(const LauncherVariables& variables, const LauncherEnvironment& found) {
  if (const auto address = variables.text("MASTER_ADDR")) return address;
  if (found.launcher == Launcher::kOpenMpi && found.local_size == found.world_size) return "127.0.0.1";
  if (found.launcher != Launcher::kSlurm) return std::nullopt;
  const auto nodes =
      variables.text(variables.first_set({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
  return nodes ? first_host(*nodes) : std::nullopt;
}

void read_master(LauncherVariables& variables, LauncherEnvironment& found) {
  const bool is_needed = found.world_size > 1;
  if (const auto address = master_address(variables, found)) {
    const bool is_bracketed = address->starts_with('[') && address->ends_with(']');  // as in URLs: [::1]
    found.master.address = is_bracketed ? address->substr(1, address->size() - 2) : *address;
  } else if (is_needed) {
    const auto nodes = variables.text("SLURM_JOB_NODELIST");
    variables.add_fault(
        concat("MASTER_ADDR is not set: nothing in what ", name_of(found.launcher), " set says where rank 0 is",
               found.launcher == Launcher::kSlurm && nodes ? concat(" (SLURM_JOB_NODELIST = ", *nodes, ")") : "",
               "; set it on all ranks to the address of rank 0's host, such as 10.0.0.1, or 127.0.0.1 on one machine"));
  }
  if (variables.has("MASTER_PORT")) {
    found.master.port = variables.number("MASTER_PORT", 1, kLastPort).value_or(0);
  } else if (is_needed && !found.run_id.empty() && !found.launcher_hosts_store) {
    found.master.port = port_of_run(found.run_id);
  } else if (is_needed) {
    variables.add_fault(
        "MASTER_PORT is not set: the store of the run listens there; set one free port, such as 29500, on all ranks");
  }
}

// torchrun's own store listens at MASTER_PORT. That of the run takes another port, which all ranks compute alike.
void leave_port_to_torchrun(LauncherVariables& variables, LauncherEnvironment& found) {
  const int master = found.master.port;
  found.master.port = variables.number("TANDEM_STORE_PORT", 1, kLastPort)
                          .value_or(port_of_run(concat(found.run_id, "/", master, "/", found.restart_count)));
}

bool does_torchrun_host_store(LauncherVariables& variables) {
  const std::string value = variables.text("TORCHELASTIC_USE_AGENT_STORE").value_or("False");
  if (value != "True" && value != "False") {
    variables.add_fault(concat("TORCHELASTIC_USE_AGENT_STORE = ", value, ": expected True or False"));
  }
  return value == "True";
}

}  // namespace

const char* name_of(Launcher launcher) {
  constexpr std::array kNames{"no launcher", "tandem launch", "torchrun", "Open MPI", "Slurm", "RANK and WORLD_SIZE"};
  return kNames[static_cast<std::size_t>(launcher)];
}

// For processes that were started by hand, or by an unknown launcher, nothing is known that would end the others.
std::string why_none_survive(const LauncherEnvironment& environment) {
  if (environment.on_death == OnDeath::kLeavesThem) return "";
  switch (environment.launcher) {
    case Launcher::kSingleProcess:
    case Launcher::kVariables:
      break;
    case Launcher::kTandem:
      return "tandem launch ends all ranks when one dies; add --on-death continue, or replace, before its --";
    case Launcher::kTorchrun:
      return "torchrun ends all ranks when one dies, and starts all of them again: nobody survives; start the ranks "
             "with `tandem launch --on-death continue` or srun --kill-on-bad-exit=0";
    case Launcher::kOpenMpi:
      return "mpirun ends all ranks when one dies: nobody survives; start the ranks with `tandem launch --on-death "
             "continue`";
    case Launcher::kSlurm:
      return "srun may end all ranks when one dies, and does not tell them whether it will; `export "
             "SLURM_KILL_BAD_EXIT=0` in the job's script, which stands for srun --kill-on-bad-exit=0 and reaches the "
             "ranks";
  }
  return "";
}

std::optional<std::string> first_host(std::string_view node_list) {
  std::string host;
  while (!node_list.empty() && node_list.front() != ',') {
    if (node_list.front() != '[') {
      if (node_list.front() == ']') return std::nullopt;
      host += node_list.front();
      node_list.remove_prefix(1);
      continue;
    }
    const std::size_t end = node_list.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view ranges = node_list.substr(1, end - 1);
    const std::string_view first = ranges.substr(0, ranges.find_first_of(",-"));
    if (first.empty()) return std::nullopt;
    host += first;
    node_list.remove_prefix(end + 1);
  }
  if (host.empty()) return std::nullopt;
  return host;
}

LauncherEnvironment read_launcher_environment(const Lookup& lookup) {
  LauncherVariables variables(lookup);
  LauncherEnvironment found;
  found.launcher = find_launcher(variables);
  if (found.launcher == Launcher::kSingleProcess) return found;
  const VariableNames names = names_for(found.launcher, variables);
  bool is_port_taken = false;
  read_ranks(names, variables, found);
  find_contradictions(found.launcher, variables);
  if (!names.run_id.empty()) found.run_id = variables.text(names.run_id).value_or("");
  if (found.launcher == Launcher::kTandem) {
    found.launcher_hosts_store = true;
    found.rank_restarts = variables.number("TANDEM_RANK_RESTARTS", 0, kMostRestarts).value_or(0);
    const std::string on_death = variables.text("TANDEM_ON_DEATH").value_or("stop");
    found.last_word = variables.text(kLastWordVariable).value_or("");
    found.on_death = on_death == "stop" ? OnDeath::kEndsAll : OnDeath::kLeavesThem;
  }
  if (found.launcher == Launcher::kTorchrun) {
    if (does_torchrun_host_store(variables)) is_port_taken = true;
    found.on_death = OnDeath::kEndsAll;
    found.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT", 0, kMostRestarts).value_or(0);
  }
  if (found.launcher == Launcher::kOpenMpi) found.on_death = OnDeath::kEndsAll;
  if (found.launcher == Launcher::kSlurm) {
    if (const auto step = variables.text("SLURM_STEP_ID")) found.run_id += "." + *step;
    // The option of srun does not reach the ranks; this variable, which stands for it, does.
    found.on_death =
        variables.text("SLURM_KILL_BAD_EXIT").value_or("") == "0" ? OnDeath::kLeavesThem : OnDeath::kUnknown;
    found.restart_count = variables.number("SLURM_RESTART_COUNT", 0, kMostRestarts).value_or(0);
    found.hosts = variables.number("SLURM_STEP_NUM_NODES", 1, kMostRanks);
  }
  read_master(variables, found);
  if (is_port_taken) leave_port_to_torchrun(variables, found);
  read_secret(variables, found);
  variables.finish();
  return found;
}

LauncherEnvironment launcher_environment() {
  LauncherEnvironment found = read_launcher_environment([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): the header says so
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  found.host_name = host_name();
  return found;
}

std::string describe(const LauncherEnvironment& environment) {
  const LauncherEnvironment& me = environment;
  std::string text = concat("rank ", me.rank, " of ", me.world_size, " (local rank ", me.local_rank);
  if (me.local_size) text += concat(" of ", *me.local_size);
  text += concat(")", me.host_name.empty() ? "" : " on ", me.host_name, ", by ", name_of(me.launcher));
  if (me.master.port != 0) {
    text += concat("; store at ", me.master.address, ":", me.master.port, ", hosted by ",
                   me.launcher_hosts_store ? name_of(me.launcher) : "rank 0");
  }
  if (!me.run_id.empty()) text += concat("; run ", me.run_id);
  if (me.restart_count > 0) text += concat(", restart ", me.restart_count);
  if (me.rank_restarts > 0) text += concat(", restart ", me.rank_restarts, " of this rank");
  return text;
}

}  // namespace tandem::comm
