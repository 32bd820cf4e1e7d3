#include "tests/failure/training_ranks.h"

#include "tandem/base/text.h"

namespace tandem::failure_test {

using process_test::Child;
using process_test::Command;
using process_test::Ended;

std::deque<Child> start_ranks(int ranks, const Place& place, const std::vector<std::string>& arguments) {
  std::deque<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    Command command{FAILING_RANK, arguments};
    command.environment = {concat("RANK=", rank), concat("WORLD_SIZE=", ranks), "MASTER_ADDR=" + place.master,
                           concat("MASTER_PORT=", place.port), "TANDEM_RUN_SECRET=a run of these tests"};
    if (place.enter) command.prepare = [&place, rank] { place.enter(rank); };
    children.emplace_back(command);
  }
  return children;
}

std::vector<Ended> wait_for(std::deque<Child>& ranks) {
  std::vector<Ended> ended;
  for (Child& rank : ranks) ended.push_back(rank.wait());
  return ended;
}

}  // namespace tandem::failure_test
