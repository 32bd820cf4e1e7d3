// A shared object that is no plugin, and leaves a file behind when it is loaded.
#include <fstream>

namespace {
__attribute__((constructor)) void leave_a_trace() { std::ofstream("loaded") << "loaded\n"; }
}  // namespace
