#include "tandem/learner/gradient_report.h"

#include <array>
#include <cmath>

#include "tandem/base/text.h"

namespace tandem::learner {
namespace {

constexpr std::array kHeads{"replica", "offered", "accepted", "applied", "dropped", "waited ms"};

std::string row_of(const std::array<std::string, kHeads.size()>& cells) {
  std::string row;
  for (std::size_t i = 0; i < cells.size(); ++i) row += (i == 0 ? "" : "  ") + align_right(cells[i], i == 0 ? 7 : 9);
  return row + "\n";
}

// "3", or "2 to 4 (mean 3.1)" where steps differ.
std::string range_of(const sync::OverSteps& figure, std::int64_t steps) {
  if (figure.least == figure.most) return concat(figure.least);
  const double mean = std::round(10 * figure.sum / static_cast<double>(steps)) / 10;
  return concat(figure.least, " to ", figure.most, " (mean ", mean, ")");
}

}  // namespace

std::string table_of(const std::vector<ReplicaGradients>& replicas, const sync::StepSizes& all) {
  std::array<std::string, kHeads.size()> cells;
  std::copy(kHeads.begin(), kHeads.end(), cells.begin());
  std::string table = row_of(cells);
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    const auto& [totals, waited] = replicas[replica];
    table += row_of({concat(replica), concat(totals.offered), concat(totals.accepted()), concat(totals.applied),
                     concat(totals.dropped), concat(std::llround(1e3 * waited))});
  }
  if (all.steps == 0) return table;
  return table + concat(all.steps, " steps, each of ", range_of(all.gradients, all.steps), " gradients and ",
                        range_of(all.rows, all.steps), " rows\n");
}

}  // namespace tandem::learner
