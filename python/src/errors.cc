#include "python/src/errors.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "tandem/app/exit_code.h"
#include "tandem/base/error.h"

namespace nb = nanobind;

namespace tandem::python {
namespace {

void raise(const char* name, const std::string& text) {
  const nb::object type = nb::module_::import_("tandem._errors").attr(name);
  PyErr_SetString(type.ptr(), text.c_str());
}

void raise_config_error(const ConfigError& error) {
  const nb::object type = nb::module_::import_("tandem._errors").attr("ConfigError");
  const nb::object made = type(error.what(), nb::cast(error.faults()));
  PyErr_SetObject(type.ptr(), made.ptr());
}

// The kinds come before those that they are derived from. Others are left to nanobind: exceptions of Python's own, and
// those of the standard library that stand for them.
void translate(const std::exception_ptr& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ConfigError& error) {
    raise_config_error(error);
  } catch (const EnvError& error) {
    raise("EnvError", error.what());
  } catch (const CheckpointError& error) {
    raise("CheckpointError", error.what());
  } catch (const RunError& error) {
    raise("RunError", error.what());
  } catch (const InvariantError& error) {
    raise("InvariantError", error.what());
  } catch (const nb::python_error&) {
    throw;
  } catch (const nb::builtin_exception&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    const app::Failure failure = app::describe_failure(thrown);
    raise(failure.code == app::ExitCode::kRunFailed ? "RunError" : "InvariantError", failure.message);
  }
}

}  // namespace

void translate_errors() { nb::register_exception_translator(translate, nullptr); }

}  // namespace tandem::python
