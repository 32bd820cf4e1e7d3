#include "tandem/app/train/isolation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <utility>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/run/program_name.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/python_choice.h"
#include "tandem/base/last_word.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/cores.h"
#include "tandem/concurrency/spin.h"
#include "tandem/device/device_set.h"
#include "tandem/rl/env/isolated/several_workers.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::app {
namespace {

// One write, so that lines of several workers do not mix.
void print_line(pid_t process, const std::string& line) {
  std::cerr << concat("[envs ", process, "] ", printable(line), "\n");
}

// What every worker has, whatever it makes.
rl::IsolationOptions of_all_workers() {
  rl::IsolationOptions isolation;
  isolation.command = own_command();
  isolation.command.emplace_back("env-worker");
  // What is meant for the training alone: its secret, its launcher's pipe, and its faults.
  isolation.without_variables = {"TANDEM_RUN_SECRET", "TANDEM_RUN_SECRET_FILE", kLastWordVariable, "TANDEM_FAULT"};
  isolation.tell = print_line;
  return isolation;
}

int replicas_of(const TrainOptions& options) {
  return static_cast<int>(device::parse_device_set(options.devices).size());
}

// The env groups of so many shards.
int groups_of(const TrainOptions& options, std::int64_t shards) {
  return static_cast<int>(shards) * algorithm_of(options).env_groups_of_shard(options);
}
int groups_of_all_ranks(const TrainOptions& options) {
  return groups_of(options, options.shards.value_or(replicas_of(options)));
}

// What a rank has open without its workers (run_ranks.cc), and what it has for the workers of its shards and of its
// evaluations: four files each, and twelve while one is started.
std::uint64_t files_of_rank_with_workers(const TrainOptions& options, int ranks) {
  const std::int64_t all = std::max<std::int64_t>(ranks, 1);
  const std::int64_t groups =
      groups_of(options, options.shards ? (*options.shards + all - 1) / all : replicas_of(options));
  return static_cast<std::uint64_t>(256 + 8 * all + 12 * (groups * workers_of_group(options) + 1));
}

// Those with which a worker steps its environments: of Atari its share of the cores.
int threads_of_worker(const TrainOptions& options) {
  if (!rl::steps_by_threads(options.env)) return 1;
  return std::max(1, usable_cores().whole() / (groups_of_all_ranks(options) * workers_of_group(options)));
}

// Each waits for another one: replicas for workers, and workers for replicas. All ranks may be on this host.
int waiting_threads(const TrainOptions& options, int ranks) {
  const int of_workers = groups_of_all_ranks(options) * workers_of_group(options) * threads_of_worker(options);
  return ranks * replicas_of(options) + of_workers;
}

// ale_py takes all cores for each of its objects unless it is told a number.
void share_cores(const TrainOptions& options, rl::EnvOptionTexts& texts) {
  if (!rl::steps_by_threads(options.env)) return;
  if (std::ranges::count(texts, "num_threads", &rl::EnvOptionTexts::value_type::first) > 0) return;
  texts.emplace_back("num_threads", std::to_string(threads_of_worker(options)));
}

}  // namespace

// All ranks may be on this host.
int workers_of_group(const TrainOptions& options) {
  if (!rl::is_python_env(options.env)) return 1;
  if (options.env_workers) return static_cast<int>(*options.env_workers);
  if (rl::steps_by_threads(options.env)) return 1;
  return std::max(1, usable_cores().whole() / groups_of_all_ranks(options));
}

std::optional<rl::IsolationOptions> isolation_of(const TrainOptions& options, int ranks) {
  const bool is_python = rl::is_python_env(options.env);
  if (!options.isolate_envs && !is_python) return std::nullopt;
  allow_open_files(files_of_rank_with_workers(options, ranks));
  rl::IsolationOptions isolation = of_all_workers();
  rl::EnvOptionTexts texts = env_option_texts(options);
  share_cores(options, texts);
  if (is_python)
    isolation = rl::python_isolation(std::move(isolation), options.env, texts);
  else
    isolation.task = {
        .env = options.env, .options = std::move(texts), .wrappers = options.env_wrappers, .plugins = options.plugins};
  isolation.deadline =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.env_deadline_seconds));
  isolation.most_memory = static_cast<std::uint64_t>(options.env_memory_mb) << 20;
  isolation.spin = spin_budget_for(waiting_threads(options, ranks));
  return isolation;
}

rl::EnvRegistry with_python_kinds(rl::EnvRegistry environments) {
  for (rl::EnvKind& kind : rl::python_kinds(of_all_workers())) environments.add_kind(std::move(kind));
  return environments;
}

rl::PythonList list_python(const std::string& name, const std::optional<std::filesystem::path>& python) {
  rl::IsolationOptions isolation = of_all_workers();
  isolation.deadline = {};
  return rl::read_python_list(name, rl::told_by_worker(name, env_option_texts(name, {}, python), isolation));
}

MakeEnvGroup isolated_maker(const rl::EnvRegistry& environments, const rl::IsolationOptions& isolation, int workers,
                            const std::shared_ptr<rl::RestartBudget>& budget) {
  const std::string& env = isolation.task.env;
  const bool is_wrapped_there = !isolation.task.wrappers.empty();
  const MakeEnvGroup make = [spec = is_wrapped_there ? environments.spec(env) : environments.inner_spec(env), isolation,
                             workers,
                             budget](int count) { return rl::in_workers(spec, count, workers, isolation, budget); };
  return is_wrapped_there ? make : environments.with_wrappers(env, make);
}

rl::EnvRegistry isolated_where_asked(const rl::EnvRegistry& environments, const TrainOptions& options, int ranks) {
  rl::EnvRegistry known = environments;
  if (known.find_multi_agent(options.env) != nullptr) return known;  // those that can be isolated are
  if (const auto isolation = isolation_of(options, ranks))
    known.set_maker(options.env, isolated_maker(environments, *isolation, 1, nullptr));
  return known;
}

}  // namespace tandem::app
