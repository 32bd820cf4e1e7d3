// The plan: host a store, through which the ranks meet; keep a connection to it, by which the launcher tells of deaths
// and asks how the run stands; and supervise the ranks until all have ended.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "tandem/app/commands/commands.h"
#include "tandem/app/launch/supervisor.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/departure.h"
#include "tandem/comm/store/rendezvous.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/store/tcp_store.h"
#include "tandem/concurrency/spin.h"

namespace tandem::app {
namespace {

using Patience = std::optional<std::chrono::milliseconds>;

std::string new_run_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return concat("launch-", ::getpid(), "-", std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// Returns the answer of the store; `unknown` when the store does not answer now: the caller asks again.
template <typename Answer, typename Ask>
Answer answer_of(const Ask& ask, Answer unknown) {
  try {
    return ask();
  } catch (const RunError&) {
    return unknown;
  }
}

}  // namespace

ExitCode run_command(const LaunchCommand& command) {
  // In this process and not in rank 0, so that it outlives any rank. Port 0: the system picks a free one.
  const comm::HostedStore store = comm::host_store(0, comm::Reach::kThisHost);
  const std::string run_id = new_run_id();
  const int ranks = command.options.ranks;
  const std::unique_ptr<comm::Store> meeting = comm::make_reconnecting_store([&] {
    const Limits limits{.deadline = Deadline::after(comm::kReplyLimit), .stop = {}};
    return comm::rendezvous_part(*comm::connect_to_store({"127.0.0.1", store.port}, limits), run_id, 0);
  });
  const std::unique_ptr<comm::Store> words = comm::make_reconnecting_store([&] {
    const Limits limits{.deadline = Deadline::after(comm::kReplyLimit), .stop = {}};
    return comm::connect_to_store({"127.0.0.1", store.port}, limits)->part(comm::run_part(run_id, 0, 0))->part("words");
  });
  // All of these run on the supervisor's thread between its polls, so a question that the store does not answer is put
  // off.
  const LaunchWitness witness{
      .first_failure = [&]() -> std::optional<ToldFailure> {
        const auto told =
            answer_of([&] { return comm::first_failure_of(*words); }, std::optional<comm::FirstFailure>());
        return told ? std::optional(ToldFailure{told->rank, told->why}) : std::nullopt;
      },
      .on_failure =
          [&](int rank, int restarts, const std::string& how) {
            comm::report_end(*meeting, {rank, restarts}, how);
          },
      .is_complete = [&] { return comm::Rendezvous::is_over(*meeting); },
      .is_left_behind =
          [&](int rank, int restarts) {
            return answer_of([&] { return comm::is_left_behind(*meeting, {rank, restarts}); }, false);
          },
      .patience_with_stopped =
          [&](int rank, int restarts) {
            return answer_of([&] { return comm::patience_with_stopped(*meeting, {rank, restarts}); }, Patience());
          },
      .patience_without_others = [&] { return answer_of([&] { return comm::deadline_of_run(*meeting); }, Patience()); },
  };
  const auto variables = [&](int rank, int restarts) {
    std::vector<std::string> all{
        concat("RANK=", rank),
        concat("WORLD_SIZE=", ranks),
        concat("LOCAL_RANK=", rank),
        concat("LOCAL_WORLD_SIZE=", ranks),
        "MASTER_ADDR=127.0.0.1",
        concat("MASTER_PORT=", store.port),
        concat("TANDEM_RUN_ID=", run_id),
        concat("TANDEM_RANK_RESTARTS=", restarts),
        concat("TANDEM_ON_DEATH=", command.options.on_death == OnDeath::kStop ? "stop" : "continue"),
        // For torch.distributed in Python, which would else start a store in rank 0.
        "TORCHELASTIC_USE_AGENT_STORE=True",
        "TORCHELASTIC_RESTART_COUNT=0",
    };
    // Ranks that each compute on all cores keep each other waiting. Who sets the variable knows better.
    if (std::getenv("OMP_NUM_THREADS") == nullptr)  // NOLINT(concurrency-mt-unsafe): nobody sets variables
      all.push_back(concat("OMP_NUM_THREADS=", std::max(1, available_cores() / ranks)));
    return all;
  };
  return static_cast<ExitCode>(supervise(command.options, variables, {}, witness));  // a rank's own, or 130
}

}  // namespace tandem::app
