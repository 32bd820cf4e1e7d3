#include "tandem/app/config/auto_devices.h"

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::int64_t kMostShards = 8, kLeastEnvironments = 4;  // of a shard: fewer are slow to step together

// The most shards that leave each enough environments and break no rule that `least` keep.
std::int64_t shards_for_any_machine(TrainOptions& options, const OptionTable& table, std::int64_t least) {
  const auto faults_with = [&](std::int64_t shards) {
    options.shards = shards;
    return rule_faults(options, table, static_cast<int>(shards)).size();
  };
  const std::size_t faults = faults_with(least);
  for (std::int64_t shards = kMostShards; shards > least; shards /= 2) {
    const bool leaves_enough = options.num_envs % shards == 0 && options.num_envs / shards >= kLeastEnvironments;
    if (leaves_enough && shards % least == 0 && faults_with(shards) <= faults) return shards;
  }
  return least;
}

}  // namespace

void resolve_devices(TrainOptions& options, OptionTable& table, const Surroundings& surroundings, Findings findings) {
  if (table.at("devices").is_faulty() || options.devices != kAutoDevices) return;
  const bool is_given = options.shards.has_value();
  if (!is_given) {
    const auto& fewest = surroundings.default_shards;
    options.shards = shards_for_any_machine(options, table, fewest ? fewest("cpu:1") : surroundings.ranks);
  }
  const std::string devices =
      concat("cpu:", surroundings.replicas_here ? surroundings.replicas_here(*options.shards) : 1);
  const Origin origin{table.at("devices").origin().layer, concat(kAutoDevices, " on this machine")};
  if (const auto problem = table.resolve("devices", devices, origin)) findings.faults.push_back(*problem);
  findings.notes.push_back(concat("devices: ", kAutoDevices, " is ", devices, " here, ",
                                  is_given ? concat("for shards: ", *options.shards)
                                           : concat("and shards: auto is ", *options.shards, " on any machine")));
}

}  // namespace tandem::app
