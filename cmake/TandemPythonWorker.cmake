# Writes OUTPUT, a source file that holds the worker of Python environments: the files of FOLDER, one behind the other.
#   cmake -DFOLDER=tandem/rl/env/python/worker -DOUTPUT=python_worker_text.cc -P TandemPythonWorker.cmake
set(text "")
foreach(part task spaces memory metrics goals environments agents listing requests)
  file(READ ${FOLDER}/${part}.py piece)
  string(APPEND text "${piece}\n\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by cmake/TandemPythonWorker.cmake from tandem/rl/env/python/worker.
#include \"tandem/rl/env/python/python_worker.h\"

namespace tandem::rl {

std::string_view python_worker_text() { return R\"python(${text})python\"; }

}  // namespace tandem::rl
")
