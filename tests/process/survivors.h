// Runs of four ranks whose survivors go on, and how to disturb them.
//
// Threads: single-thread.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "training.h"

namespace tandem::process_test {

inline constexpr int kSurvivingRanks = 4;

/// DD-PPO with so many environment steps, for one rank or for kSurvivingRanks.
Recipe small_dd_ppo(std::int64_t steps);
/// DD-PPO that solves CartPole within 500,000 environment steps; more of them leave time for many faults. As four ranks
/// with the defaults, on any number of ranks.
Recipe solving_dd_ppo(std::int64_t steps);
/// `tandem train` of it, with few checkpoints: these trainings are not about the disk.
Command training(const Recipe& recipe, const std::filesystem::path& folder);
/// The same on kSurvivingRanks under `tandem launch --on-death`, whose survivors take over; `more` flags of the
/// training.
Command with_survivors(const Recipe& recipe, const std::filesystem::path& folder, const std::string& on_death,
                       const std::vector<std::string>& more = {});
/// Of a run of one rank that nobody disturbs.
std::string undisturbed_state(const Recipe& recipe);

/// The process that a launcher has running for a rank; 0 when there is none.
pid_t process_of(const Child& launcher, int rank);
bool signal_rank(const Child& launcher, int rank, int signal);
bool kill_rank(const Child& launcher, int rank);

/// The run must have ended well, with this state, so many replicas in its summary and a line for every update.
void expect_complete(const Ended& ended, const std::filesystem::path& folder, const std::string& state,
                     std::size_t replicas);
/// The same of a run that is not interrupted: all ranks were in it to its end.
void expect_undisturbed(const Ended& ended, const std::filesystem::path& folder, const std::string& state);
/// The ranks of the newest round, as log.txt names them; none when there was but the first.
std::vector<int> newest_members(const std::filesystem::path& folder);
/// log.txt so far.
std::string log_of(const std::filesystem::path& folder);
int count_in(const std::string& text, const std::string& part);
/// After which update the run went on last; -1 when it never did.
std::int64_t went_on_after(const std::filesystem::path& folder);
/// Waits until log.txt says `part` so many times; false when the launcher ended before.
bool says(Child& launcher, const std::filesystem::path& folder, const std::string& part, int times);

}  // namespace tandem::process_test
