#include "tandem/rl/rollout/act_on.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// Sums of products of larger numbers with usual weights leave the range in which a policy learns.
constexpr double kAbsurdNumber = 1e6;

std::string about_absurd(const Spec& spec, const Observation& observation) {
  double largest = kAbsurdNumber;
  std::string sentence;
  for (std::size_t l = 0; l < observation.size(); ++l) {
    if (!observation[l].is_floating_point()) continue;
    const at::Tensor flat = observation[l].flatten().to(at::kDouble);
    const auto at = flat.abs().argmax().item<std::int64_t>();
    const auto number = flat[at].item<double>();
    if (!(std::abs(number) > largest)) continue;
    largest = std::abs(number);
    const std::int64_t count = spec.observation[l].count();
    sentence = concat("; likely since element ", at % count, " of the observation leaf '", spec.observation[l].name,
                      "' is ", number, " in row ", at / count,
                      ": let the environment show smaller numbers, or set normalize.observations: true");
  }
  return sentence;
}

}  // namespace

void act_on(const Spec& spec, Actor& actor, const Observation& observation, const at::Tensor& mask,
            const Decisions& out) {
  try {
    actor.act(observation, mask, out);
  } catch (const EnvError&) {
    throw;  // it names what was seen already
  } catch (const RunError& error) {
    const std::string absurd = about_absurd(spec, observation);
    if (absurd.empty()) throw;
    throw RunError(error.what() + absurd);
  }
}

}  // namespace tandem::rl
