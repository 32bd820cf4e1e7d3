#include "tandem/comm/store/store.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

std::string key_of(const std::string& what, int rank) { return concat(what, "/", rank); }

// "rank 3" or "ranks 1, 3": those that have set nothing.
std::string missing_ranks(Store& store, const std::string& what, int size) {
  std::string ranks;
  int count = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (store.find(key_of(what, rank))) continue;
    ranks += concat(count++ == 0 ? "" : ", ", rank);
  }
  return concat(count == 1 ? "rank " : "ranks ", ranks);
}

}  // namespace

std::vector<std::string> exchange(Store& store, const std::string& what, int rank, int size, const std::string& mine,
                                  const Limits& limits) {
  const Clock::time_point begin = Clock::now();
  store.set(key_of(what, rank), mine);
  std::vector<std::string> all;
  try {
    for (int other = 0; other < size; ++other) all.push_back(store.get(key_of(what, other), limits));
  } catch (const DeadlineExceeded&) {
    const std::chrono::duration<double> waited = Clock::now() - begin;
    throw DeadlineExceeded(
        concat("rank ", rank, " waited ", waited.count(), " s for ", missing_ranks(store, what, size), " of ", size,
               " to bring '", what, "' to ", store.name(),
               "; likely they were not started, failed before, or cannot reach it: see their output"));
  }
  return all;
}

}  // namespace tandem::comm
