#include "tandem/comm/group.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/tree_reduce.h"

namespace tandem::comm {
namespace {

std::string describe_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return concat("a", tensor.is_contiguous() ? "" : " strided", " tensor ", tensor.sizes(), " of ",
                c10::toString(tensor.scalar_type()));
}

}  // namespace

void Group::require_flat(const at::Tensor& flat, const char* does) {
  if (flat.defined() && flat.dim() == 1 && flat.is_contiguous()) return;
  throw ConfigError(concat("a group ", does, " contiguous tensors of one dimension, and got ", describe_tensor(flat),
                           "; comm::all_reduce(group, tensor) of tandem/comm/collectives.h takes any shape"));
}

void Group::require_summable(const at::Tensor& flat) {
  require_flat(flat, "sums");
  if (tree_reduce_of(flat.scalar_type()) != nullptr) return;
  throw ConfigError(concat("a group sums float, double, half, bfloat16 and int64, and got ", describe_tensor(flat),
                           "; comm::all_reduce(group, tensor) of tandem/comm/collectives.h takes other integers, and ",
                           "Bool with ReduceOp::kMax (or) and kMin (and)"));
}

void Group::require_broadcast(const at::Tensor& flat, int root) const {
  if (root < 0 || root >= size())
    throw ConfigError(concat("a broadcast from rank ", root, " of a group of ", size(), "; give 0 to ", size() - 1));
  if (flat.defined() && flat.is_contiguous()) return;
  throw ConfigError(concat("a group broadcasts contiguous tensors, and got ", describe_tensor(flat),
                           "; comm::broadcast(group, tensor) of tandem/comm/collectives.h takes any"));
}

void Group::require_room(std::span<const double> mine, std::span<const double> all) const {
  if (all.size() == mine.size() * static_cast<std::size_t>(size())) return;
  throw ConfigError(concat("a gather of ", mine.size(), " numbers of each of ", size(), " members into room for ",
                           all.size(), "; give room for ", mine.size() * static_cast<std::size_t>(size())));
}

void Group::require_order(bool in_order) {
  if (!in_order)
    throw ConfigError("collectives are waited for in the order of their start, each once; keep them in a queue");
}

}  // namespace tandem::comm
