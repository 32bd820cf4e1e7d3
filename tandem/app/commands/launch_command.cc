// The plan: host a store, through which the ranks meet, the launcher tells of deaths and asks how the run stands; and
// supervise the ranks until all have ended.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/commands/commands.h"
#include "tandem/app/launch/supervisor.h"
#include "tandem/base/digest/hmac.h"
#include "tandem/base/text.h"
#include "tandem/comm/departure.h"
#include "tandem/comm/store/obituary.h"
#include "tandem/comm/store/rendezvous.h"
#include "tandem/comm/store/replacement.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/comm/store/store.h"
#include "tandem/concurrency/cores.h"
#include "tandem/net/sockets.h"

namespace tandem::app {
namespace {

constexpr std::size_t kSecretBytes = 32;

std::string new_run_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return concat("launch-", ::getpid(), "-", std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// A TCP port that is free now, for ranks in Python: MASTER_PORT, where torch.distributed hosts a store of its own.
int free_port() { return net::port_of(net::listen_to_all(0)); }

// Where the ranks of one attempt meet. A new one has a run id of its own, and finds nothing of the earlier ones.
struct Attempt {
  Attempt(comm::Store& store, const std::string& launch, int number)
      : run_id(number == 0 ? launch : concat(launch, "-", number)),
        meeting(comm::rendezvous_part(store, run_id, 0)),
        world(store.part(comm::run_part(run_id, 0, 0))),
        words(world->part("words")) {}

  std::string run_id;
  std::unique_ptr<comm::Store> meeting, world, words;
};

}  // namespace

ExitCode run_command(const LaunchCommand& command) {
  // In this process and not in rank 0, so that it outlives any rank.
  const std::string secret = random_hex(kSecretBytes);
  const int port = free_port();
  const comm::HostedStore hosted =
      comm::host_store({.endpoint = {"127.0.0.1", port}, .reach = net::Reach::kThisHost, .secret = secret});
  const std::string launch = new_run_id();
  const int ranks = command.options.ranks;
  int attempts = 0;
  Attempt now(*hosted.store, launch, attempts);
  // All of these run on the supervisor's thread between its polls.
  std::vector<bool> is_missed(static_cast<std::size_t>(ranks));  // decided once for each failure, by on_failure
  const LaunchWitness witness{
      .first_failure = [&]() -> std::optional<ToldFailure> {
        const auto told = comm::first_failure_of(*now.words);
        return told ? std::optional(ToldFailure{told->rank, told->why}) : std::nullopt;
      },
      .on_failure =
          [&](int rank, int restarts, const std::string& how) {
            comm::report_end(*now.meeting, {rank, restarts}, how);
            const OnDeath on_death = command.options.on_death;
            const bool missed = on_death == OnDeath::kReplace && !comm::can_be_replaced(*now.world, *now.meeting, rank);
            is_missed[static_cast<std::size_t>(rank)] = missed;
            if (on_death == OnDeath::kContinue || missed) comm::write_obituary(*now.world, rank, how);
          },
      .can_be_replaced = [&](int rank) { return !is_missed[static_cast<std::size_t>(rank)]; },
      .on_new_attempt = [&] { now = Attempt(*hosted.store, launch, ++attempts); },
      .is_complete = [&] { return comm::Rendezvous::is_over(*now.meeting); },
      .is_left_behind =
          [&](int rank, int restarts) {
            return comm::is_left_behind(*now.meeting, {rank, restarts});
          },
      .patience_with_stopped =
          [&](int rank, int restarts) {
            return comm::patience_with_stopped(*now.meeting, {rank, restarts});
          },
      .patience_without_others = [&] { return comm::deadline_of_run(*now.meeting); },
  };
  const auto variables = [&](int rank, int restarts) {
    std::vector<std::string> all{
        concat("RANK=", rank),
        concat("WORLD_SIZE=", ranks),
        concat("LOCAL_RANK=", rank),
        concat("LOCAL_WORLD_SIZE=", ranks),
        "MASTER_ADDR=127.0.0.1",
        concat("MASTER_PORT=", std::to_string(port)),
        concat("TANDEM_RUN_ID=", now.run_id),
        concat("TANDEM_RUN_SECRET=", secret),
        "TANDEM_RUN_SECRET_FILE=",
        concat("TANDEM_RANK_RESTARTS=", restarts),
        concat("TANDEM_ON_DEATH=", command.options.on_death == OnDeath::kStop ? "stop" : "continue"),
    };
    // Ranks that each compute on all cores keep each other waiting. Who sets the variable knows better.
    if (std::getenv("OMP_NUM_THREADS") == nullptr)  // NOLINT(concurrency-mt-unsafe): nobody sets variables
      all.push_back(concat("OMP_NUM_THREADS=", std::max(1, usable_cores().whole() / ranks)));
    return all;
  };
  return static_cast<ExitCode>(supervise(command.options, variables, {}, witness));  // a rank's own, or 130
}

}  // namespace tandem::app
