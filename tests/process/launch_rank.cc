// A rank for tests: meets the others in the store, prints who it is, and ends as it is told:
//
//   launch_rank end | fail RANK | wait FOLDER
//
// With `wait` it writes its process id to FOLDER/RANK once it has met the others, and waits to be ended.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tandem/base/atomic_file.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/run_store.h"

using namespace tandem;

int main(int, char** argv) try {
  const std::string mode = argv[1];
  const comm::LauncherEnvironment me = comm::launcher_environment();
  const Limits limits{.deadline = Deadline::after(std::chrono::minutes(5)), .stop = {}};
  const std::unique_ptr<comm::Store> store = comm::open_store(me, 0, limits);
  const auto all = comm::exchange(*store, "numbers", me.rank, me.world_size, concat("n", me.rank), limits);
  std::cout << comm::describe(me) << "; met";
  for (const std::string& value : all) std::cout << " " << value;
  const char* threads = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): one thread
  std::cout << "; threads " << (threads == nullptr ? "unset" : threads) << std::endl;
  // Who hosts the store is the last to go.
  if (me.rank == 0 && !me.launcher_hosts_store) {
    for (int rank = 1; rank < me.world_size; ++rank) (void)store->get(concat("done/", rank), limits);
  } else {
    store->set(concat("done/", me.rank), "1");
  }
  if (mode == "fail" && std::stoi(argv[2]) == me.rank) {
    std::cerr << "this rank was told to fail" << std::endl;
    return 9;
  }
  if (mode == "wait") write_file(std::filesystem::path(argv[2]) / std::to_string(me.rank), std::to_string(::getpid()));
  if (mode != "end") ::pause();
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 3;
}
