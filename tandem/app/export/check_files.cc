#include "tandem/app/export/check_files.h"

#include <ATen/ATen.h>

#include <cstring>
#include <string_view>

#include "tandem/app/export/export_check.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

void write_raw(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  write_file(path, {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()});
}

}  // namespace

void write_rows(const std::filesystem::path& folder, const TrainedPolicy& trained, const RecordedRows& rows) {
  for (std::size_t leaf = 0; leaf < rows.raw.size(); ++leaf) write_raw(folder / concat("leaf_", leaf), rows.raw[leaf]);
  const std::int64_t options = rl::mask_elements(trained.policy->spec().action);
  if (options > 0)
    write_raw(folder / "mask", rows.mask.defined() ? rows.mask : at::ones({rows.rows(), options}, at::kByte));
  if (rows.state.defined()) write_raw(folder / "state", acting_state(trained, rows.state));
}

// One byte more than there may be shows that there are more.
at::Tensor read_actions(const std::filesystem::path& folder, const TrainedPolicy& trained, const RecordedRows& rows) {
  const rl::ActionSpace& space = trained.policy->spec().action;
  const auto dtype = std::holds_alternative<rl::Box>(space) ? at::kFloat : at::kLong;
  at::Tensor actions = at::empty({rows.rows(), rl::action_elements(space)}, dtype);
  const std::string bytes = read_file(folder / "actions", actions.nbytes() + 1);
  if (bytes.size() != actions.nbytes())
    throw RunError(concat("the exported policy wrote actions of ", bytes.size(), " bytes, and not ", actions.nbytes()));
  std::memcpy(actions.data_ptr(), bytes.data(), bytes.size());
  return actions;
}

}  // namespace tandem::app
