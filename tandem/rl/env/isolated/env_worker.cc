#include "tandem/rl/env/isolated/env_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/rounding.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/worker.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/isolated/bell.h"
#include "tandem/rl/env/isolated/env_region.h"
#include "tandem/rl/env/isolated/worker_task.h"
#include "tandem/rl/env/restarting_envs.h"

namespace tandem::rl {
namespace {

// The training has let the group go. No std::exception, so that nobody takes it for a failure of an environment.
struct TrainingIsGone {};

WorkerOutcome outcome_of(const std::exception& error, WorkerCommand command) {
  if (command == WorkerCommand::kBegin && dynamic_cast<const ConfigError*>(&error) != nullptr)
    return WorkerOutcome::kRefused;
  if (command == WorkerCommand::kLoad && dynamic_cast<const CheckpointError*>(&error) != nullptr)
    return WorkerOutcome::kUnreadable;
  return WorkerOutcome::kFailed;
}

class EnvWorker {
 public:
  /// `is_busy` is set from the begin of a request until its answer.
  EnvWorker(const EnvRegistry& environments, EnvRegion region, int socket, std::atomic<bool>& is_busy)
      : environments_(environments),
        region_(std::move(region)),
        header_(region_.header()),
        table_(header_.table),
        socket_(socket),
        is_busy_(is_busy) {}

  [[noreturn]] void serve() {
    for (;;) {
      wait();
      const auto command = static_cast<WorkerCommand>(header_.command);
      try {
        answer(WorkerOutcome::kDone, run(command));
      } catch (const std::exception& error) {
        answer(outcome_of(error, command), error.what());
      }
    }
  }

  // Whether an environment that failed as `what` says may be made anew.
  bool ask(const std::string& what) {
    answer(WorkerOutcome::kAsks, what);
    wait();
    return static_cast<WorkerCommand>(header_.command) == WorkerCommand::kAnswer && header_.argument == 1;
  }

 private:
  void wait() {
    const BellWait wait{.number = header_.request,
                        .value = ++requests_,
                        .own_sleeps = header_.worker_sleeps,
                        .socket = socket_,
                        .spin = {std::chrono::nanoseconds(table_.spin_ns)}};
    if (wait.until(Deadline::infinite()) != BellOutcome::kRung)
      throw TrainingIsGone{};  // NOLINT(bugprone-std-exception-baseclass): see there
    is_busy_ = true;
  }
  void answer(WorkerOutcome outcome, std::uint64_t value) {
    header_.outcome = static_cast<std::uint32_t>(outcome);
    header_.value = value;
    is_busy_ = false;  // before the training can know, and let the group go
    ring(header_.done, requests_, header_.learner_sleeps, socket_);
  }
  void answer(WorkerOutcome outcome, std::string_view text) {
    const std::size_t bytes = std::min(text.size(), kMostAnswerText);
    std::memcpy(window(), text.data(), bytes);
    answer(outcome, std::uint64_t{bytes});
  }

  [[nodiscard]] std::byte* window() const { return region_.at(table_.window); }

  // Returns `value` of the answer.
  std::uint64_t run(WorkerCommand command) {
    const KeptRounding kept;  // as around each call in the training's own process
    switch (command) {
      case WorkerCommand::kBegin:
        return begin();
      case WorkerCommand::kReset:
        return reset();
      case WorkerCommand::kStep:
        return step();
      case WorkerCommand::kProgress:
        return progress();
      case WorkerCommand::kSave:
        return save();
      case WorkerCommand::kLoad:
        return load();
      case WorkerCommand::kGive:
        return give();
      case WorkerCommand::kTake:
        return take();
      case WorkerCommand::kRewardGoals:
        return reward_goals();
      case WorkerCommand::kAnswer:
      case WorkerCommand::kDescribe:  // the training knows the spec of environments in C++ itself
      case WorkerCommand::kStepRows:  // wrappers that would need it are in this worker
      case WorkerCommand::kRender:
        break;
    }
    throw RunError(concat("a worker was asked for ", static_cast<std::uint32_t>(command), ", which it does not know"));
  }

  std::uint64_t begin() {
    const std::vector<std::byte> input = std::exchange(input_, {});
    const WorkerTask task = read_task({reinterpret_cast<const char*>(input.data()), input.size()});
    EnvRegistry known = environments_;
    for (const std::filesystem::path& plugin : task.plugins) known.load_plugin(plugin);
    known.set_options(task.env, task.options);
    known.set_wrappers(task.env, task.wrappers);
    layout_ = layout_of(known.spec(task.env), task.environments, 0);
    if (!region_.has(layout_))
      throw ConfigError(concat(task.env, " has another spec in its worker process than in the training; was its ",
                               "plugin built anew meanwhile?"));
    arrays_ = region_.arrays(layout_);
    const auto make = [known, env = task.env](int count) { return known.make(env, count); };
    if (task.restarts) {
      auto envs = std::make_unique<RestartingEnvs>(make, task.environments,
                                                   std::make_shared<AskingBudget>(*task.restarts, *this));
      restarting_ = envs.get();
      group_ = std::move(envs);
    } else {
      group_ = make(task.environments);
    }
    constexpr std::uint64_t kSaves = 1, kRewardsGoals = 8;
    return (group_->can_save() ? kSaves : 0) + (goal_rewards_of(*group_) != nullptr ? kRewardsGoals : 0);
  }

  std::uint64_t reset() {
    const std::size_t rows = layout_.table.environments;
    if (restarting_ == nullptr) {
      group().reset({region_.array<const std::uint64_t>(layout_.table.start_seeds), rows}, arrays_);
      return 0;
    }
    std::vector<EnvOrigin> origins;
    for (std::size_t e = 0; e < rows; ++e) origins.push_back({.seed = seeds()[e], .failures = failures()[e]});
    restarting_->reset_from(origins, arrays_);
    show_origins();
    return 0;
  }
  std::uint64_t step() {
    group().step(region_.actions(layout_), arrays_);
    show_origins();
    return 0;
  }
  std::uint64_t progress() {
    group().set_progress(header_.progress);
    return 0;
  }
  std::uint64_t save() {
    output_ = group().save();
    taken_ = 0;
    return output_.size();
  }
  std::uint64_t load() {
    const std::vector<std::byte> state = std::exchange(input_, {});
    group().load(state, arrays_);
    show_origins();
    return 0;
  }
  std::uint64_t give() {
    const std::byte* const piece = window();
    input_.insert(input_.end(), piece, piece + std::min<std::uint64_t>(header_.argument, kWindowBytes));
    return 0;
  }
  std::uint64_t take() {
    const std::size_t bytes = std::min(kWindowBytes, output_.size() - taken_);
    if (bytes > 0) std::memcpy(window(), output_.data() + taken_, bytes);
    taken_ += bytes;
    return bytes;
  }

  std::uint64_t reward_goals() {
    std::vector<std::byte> input = std::exchange(input_, {});
    GoalRewards* const its = goal_rewards_of(group());
    if (its == nullptr) throw RunError("a worker was asked for the rewards of goals, which its environments have not");
    const auto rows = static_cast<std::size_t>(header_.argument);
    const std::size_t goals = rows * group().spec().observation[goal_leaves(group().spec()).achieved].bytes();
    if (input.size() != 2 * goals + rows) throw RunError("a worker was asked for the rewards of goals without these");
    std::vector<double> reward(rows);
    auto* const terminated = reinterpret_cast<std::uint8_t*>(input.data() + 2 * goals);
    its->reward_goals({.rows = static_cast<std::int64_t>(rows),
                       .achieved = input.data(),
                       .desired = input.data() + goals,
                       .reward = reward.data(),
                       .terminated = terminated});
    output_.resize(rows * (sizeof(double) + 1));
    if (rows > 0) {
      std::memcpy(output_.data(), reward.data(), rows * sizeof(double));
      std::memcpy(output_.data() + rows * sizeof(double), terminated, rows);
    }
    taken_ = 0;
    return output_.size();
  }

  void show_origins() const {
    for (std::size_t e = 0; restarting_ != nullptr && e < layout_.table.environments; ++e) {
      const EnvOrigin origin = restarting_->origin(e);
      seeds()[e] = origin.seed;
      failures()[e] = origin.failures;
    }
  }
  [[nodiscard]] std::uint64_t* seeds() const { return region_.array<std::uint64_t>(layout_.table.seeds); }
  [[nodiscard]] std::uint64_t* failures() const { return region_.array<std::uint64_t>(layout_.table.failures); }
  [[nodiscard]] EnvGroup& group() const {
    if (group_ == nullptr) throw RunError("a worker was asked for a step before it has environments");
    return *group_;
  }

  // The training counts for all workers.
  class AskingBudget final : public RestartBudget {
   public:
    AskingBudget(std::int64_t limit, EnvWorker& worker) : RestartBudget(limit), worker_(worker) {}
    [[nodiscard]] bool take(const std::string& what) override { return worker_.ask(what); }

   private:
    EnvWorker& worker_;
  };

  const EnvRegistry& environments_;
  const EnvRegion region_;
  RegionHeader& header_;
  const RegionTable table_;  // as it was at first: an environment may write where it should not
  const int socket_;
  std::atomic<bool>& is_busy_;
  std::uint32_t requests_ = 0;
  RegionLayout layout_;
  EnvArrays arrays_;
  std::unique_ptr<EnvGroup> group_;
  RestartingEnvs* restarting_ = nullptr;  // group_, where it is one
  std::vector<std::byte> input_, output_;
  std::size_t taken_ = 0;  // of output_
};

// Ends the process when the training is gone, though the other thread is inside an environment. Where that one is not,
// it is given time to destroy the environments. This thread looks at the stop itself now and then: an environment may
// close any descriptor that could wake it.
void watch_training(int socket, const std::atomic<bool>& is_busy, const std::stop_token& stop) {
  constexpr int kLookMs = 100;
  Mutex mutex;
  CondVar never;
  while (!stop.stop_requested()) {
    pollfd wait{socket, POLLRDHUP, 0};
    if (::poll(&wait, 1, kLookMs) <= 0) continue;
    if ((wait.revents & POLLNVAL) != 0) return;  // the other thread says so
    MutexLock lock(mutex);
    (void)never.wait(mutex, stop, Deadline::after(kPatienceForTheEnd), [&is_busy] { return is_busy.load(); });
    if (!stop.stop_requested()) std::_Exit(0);
  }
}

bool is_socket(int descriptor) {
  int kind = 0;
  socklen_t bytes = sizeof(kind);
  return ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &bytes) == 0;
}

}  // namespace

void serve_envs(const EnvRegistry& environments) {
  if (!is_socket(kWorkerSocket))
    throw ConfigError("this command is started by a training with isolate_envs, and not by hand");
  set_thread_name("tandem-envs");
  EnvRegion region = EnvRegion::open(kWorkerMemory);
  // Not for what a simulator starts: it would hold the memory, and the socket open.
  for (const int descriptor : {kWorkerSocket, kWorkerMemory}) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  std::atomic<bool> is_busy = false;
  // Watches to the end of this function, where environments are destroyed.
  const Worker watch("training watch",
                     [&is_busy](const std::stop_token& stop) { watch_training(kWorkerSocket, is_busy, stop); });
  EnvWorker worker(environments, std::move(region), kWorkerSocket, is_busy);
  try {
    worker.serve();
  } catch (const TrainingIsGone&) {
    if (!is_socket(kWorkerSocket))
      throw RunError("descriptor 3, the socket to the training, is none any more: a library has closed it");
  }
}

}  // namespace tandem::rl
