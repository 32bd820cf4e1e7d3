#include "python/src/callbacks.h"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "tandem/app/exit_code.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace nb = nanobind;

namespace tandem::python {
namespace {

// Ctrl-C during a call, which may wait for something, is Python's.
class PythonsInterrupts {
 public:
  explicit PythonsInterrupts(const struct sigaction* pythons) : is_swapped_(pythons != nullptr) {
    if (is_swapped_) ::sigaction(SIGINT, pythons, &runs_);
  }
  ~PythonsInterrupts() {
    if (is_swapped_) ::sigaction(SIGINT, &runs_, nullptr);
  }
  PythonsInterrupts(const PythonsInterrupts&) = delete;
  PythonsInterrupts& operator=(const PythonsInterrupts&) = delete;

 private:
  struct sigaction runs_ {};
  const bool is_swapped_;
};

nb::object object_of(const MetricValue& value) {
  return std::visit(
      [](const auto& its) -> nb::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(its)>, std::nullptr_t>) {
          return nb::none();
        } else if constexpr (std::is_same_v<std::decay_t<decltype(its)>, double>) {
          return std::isnan(its) ? nb::none() : nb::cast(its);
        } else {
          return nb::cast(its);
        }
      },
      value);
}

nb::object dict_of(const Record& line) {
  nb::dict numbers;
  for (const auto& [name, value] : line.fields()) numbers[nb::str(name.c_str(), name.size())] = object_of(value);
  return numbers;
}

nb::object dict_of(const rl::Episode& episode) {
  nb::dict its;
  its["return"] = episode.episode_return;
  its["length"] = episode.length;
  its["env"] = episode.row;
  nb::list metrics;
  for (const double value : episode.metrics) metrics.append(value);
  its["metrics"] = metrics;
  return its;
}

nb::object dict_of(const app::SavedCheckpoint& saved) {
  nb::dict its;
  its["folder"] = saved.folder.string();
  its["updates"] = saved.updates;
  its["env_steps"] = saved.env_steps;
  its["score"] = saved.score ? nb::cast(*saved.score) : nb::none();
  return its;
}

// False, and numpy's; not whatever else counts as false: a function may return anything that nobody thought of.
bool is_false(const nb::object& answer) {
  if (answer.ptr() == Py_False) return true;
  return std::string_view(Py_TYPE(answer.ptr())->tp_name).starts_with("numpy.bool") &&
         PyObject_IsTrue(answer.ptr()) == 0;
}

std::string text_of(const nb::python_error& error) {
  const nb::str type = nb::cast<nb::str>(error.type().attr("__name__"));
  // Whatever has no place in UTF-8 is written as its number.
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(nb::str(error.value()).ptr(), "utf-8", "backslashreplace"));
  return concat(type.c_str(), ": ", bytes.is_valid() ? PyBytes_AsString(bytes.ptr()) : "");
}

[[noreturn]] void end_copy(const char* name) {
  constexpr const char* kText =
      "() came back in a copy of the process, which it has forked and which has none of the run's threads; the copy "
      "ends, and the run goes on. End a copy within the callback, by os._exit()\n";
  const std::string text = concat("tandem: ", name, kText);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(static_cast<int>(app::ExitCode::kRunFailed));
}

}  // namespace

void bind_wishes(nb::module_& module) {
  const auto bind = [](auto& type, const char* name, std::atomic<bool> RunWishes::*wish) {
    type.def_prop_rw(
        name, [wish](const RunWishes& its) { return (its.*wish).load(); },
        [wish](RunWishes& its, bool value) { its.*wish = value; });
  };
  nb::class_<RunWishes> type(module, "RunWishes");
  type.def(nb::init<>());
  bind(type, "stop", &RunWishes::stop);
  bind(type, "checkpoint", &RunWishes::checkpoint);
  bind(type, "change", &RunWishes::change);
}

Callbacks::Callbacks(CallbackFunctions functions, RunWishes& wishes, const struct sigaction* interrupts)
    : functions_(std::move(functions)), wishes_(wishes), interrupts_(interrupts), process_(::getpid()) {}

void Callbacks::call(const nb::object& function, const char* name, const std::function<nb::object()>& argument) {
  if (raised_) return;
  const nb::gil_scoped_acquire acquired;
  const PythonsInterrupts interrupts(interrupts_);
  try {
    const nb::object answer = function(argument());
    if (::getpid() != process_) end_copy(name);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (is_false(answer)) wishes_.stop = true;
  } catch (const nb::python_error& error) {
    if (::getpid() != process_) end_copy(name);
    raised_ = std::current_exception();
    wants_end_ = !error.matches(PyExc_Exception);  // a wish to end, as of Ctrl-C
    if (!wants_end_) throw RunError(concat(name, "() raised ", text_of(error)));
  }
}

app::RunObserver Callbacks::observer() {
  app::RunObserver observer;
  if (!functions_.on_update.is_none())
    observer.on_update = [this](const Record& line) {
      call(functions_.on_update, "on_update", [&line] { return dict_of(line); });
    };
  if (!functions_.on_episode.is_none())
    observer.on_episode = [this](const rl::Episode& episode) {
      call(functions_.on_episode, "on_episode", [&episode] { return dict_of(episode); });
    };
  if (!functions_.on_checkpoint.is_none())
    observer.on_checkpoint = [this](const app::SavedCheckpoint& saved) {
      call(functions_.on_checkpoint, "on_checkpoint", [&saved] { return dict_of(saved); });
    };
  if (observer.on_update || observer.on_episode || observer.on_checkpoint) {
    observer.wants_stop = [this] { return wants_stop(); };
    observer.stop_wish = "the Python program (stop(), change(), False from a callback, or Ctrl-C in one)";
    observer.wants_checkpoint = [this] { return wishes_.checkpoint.exchange(false); };
  }
  return observer;
}

void Callbacks::rethrow() const {
  if (raised_) std::rethrow_exception(raised_);
}

}  // namespace tandem::python
