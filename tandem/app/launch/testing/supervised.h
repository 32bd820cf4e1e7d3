// app/launch/testing/supervised.h: launches of small shell scripts, each with own variables RANK and RESTARTS.
//
// Threads: single-thread.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tandem/app/launch/supervisor.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::app {

inline std::vector<std::string> variables(int rank, int restarts) {
  return {concat("RANK=", rank), concat("RESTARTS=", restarts)};
}

inline std::string content_of(std::FILE* file) {
  std::string text;
  std::fseek(file, 0, SEEK_SET);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text.push_back(static_cast<char>(c));
  return text;
}

struct Outcome {
  int code = 0;
  std::string out, err;
};

class Supervised : public ::testing::Test {
 protected:
  Outcome launch(const std::string& script, LaunchOptions options = {}, const LaunchWitness& witness = {}) {
    options.command = {"/bin/sh", "-c", concat("cd ", folder.path().string(), "; ", script)};
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose),
        err(std::tmpfile(), std::fclose);
    Outcome outcome;
    outcome.code = supervise(options, variables, {::fileno(out.get()), ::fileno(err.get())}, witness);
    outcome.out = content_of(out.get());
    outcome.err = content_of(err.get());
    return outcome;
  }
  // What a script has written with `echo $$ > NAME`; zero when it has not yet.
  pid_t process_in(const std::string& name) const {
    std::ifstream file(folder / name);
    pid_t process = 0;
    std::string end;
    return file >> process && std::getline(file, end) && !file.eof() ? process : 0;
  }

  TemporaryFolder folder;
};

}  // namespace tandem::app
