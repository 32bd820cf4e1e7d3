#include <tandem/app/program.h>

#include <algorithm>
#include <csignal>
#include <iostream>

// The program `tandem` that tells of its checkpoints, and stops once CartPole is balanced for 100 steps.
int main(int argc, char** argv) {
  std::int64_t longest = 0;
  const tandem::app::RunObserver observer{
      .on_update =
          [](const tandem::Record& line) {
            if (line.number("episode_return_mean") > 100) std::raise(SIGTERM);  // ends in order, with a checkpoint
          },
      .on_episode = [&](const tandem::rl::Episode& episode) { longest = std::max(longest, episode.length); },
      .on_checkpoint =
          [&](const tandem::app::SavedCheckpoint& saved) {
            std::cout << "saved " << saved.folder.string() << ", longest episode " << longest << std::endl;
          }};
  return tandem::app::run_program(argc, argv, tandem::rl::EnvRegistry::native(), observer);
}
