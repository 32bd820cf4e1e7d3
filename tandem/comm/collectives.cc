#include "tandem/comm/collectives.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cmath>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/summation_tree.h"
#include "tandem/base/text.h"
#include "tandem/comm/tree_reduce.h"

namespace tandem::comm {
namespace {

const char* op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "a sum";
    case ReduceOp::kMean:
      return "a mean";
    case ReduceOp::kMin:
      return "a minimum";
    case ReduceOp::kMax:
      return "a maximum";
  }
  return "?";
}

void require_reducible(const at::Tensor& tensor, ReduceOp op) {
  if (!tensor.defined() || tensor.layout() != at::kStrided)
    throw ConfigError(
        concat("all_reduce() takes a dense tensor, and got ", tensor.defined() ? "a sparse" : "no", " one"));
  const at::ScalarType dtype = tensor.scalar_type();
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean;
  const bool floating = at::isFloatingType(dtype), integral = at::isIntegralType(dtype, /*includeBool=*/false);
  const bool fits = op == ReduceOp::kMean ? floating
                    : adds                ? floating || integral
                                          : floating || integral || dtype == at::kBool;
  const bool summed = !floating || tree_reduce_of(dtype) != nullptr;
  if (fits && (!adds || summed)) return;
  throw ConfigError(concat(op_name(op), " of ", c10::toString(dtype), " is not defined; ",
                           dtype == at::kBool      ? "of Bool take ReduceOp::kMax (or) or kMin (and)"
                           : op == ReduceOp::kMean ? "convert it to float or double first"
                                                   : "convert it to a float, double or integer tensor first"));
}

// The sum over all members, in the tensor's own memory where that is contiguous; integers are added as int64.
at::Tensor sum_over(Group& group, const at::Tensor& tensor, const Limits& limits) {
  const bool integral = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
  const at::Tensor flat = tensor.detach().to(integral ? at::kLong : tensor.scalar_type()).contiguous().flatten();
  group.start_all_reduce(flat).wait(limits);
  return flat;
}

// Bytes stand for dtypes that the group need not know.
at::Tensor bytes_of_tensor(const at::Tensor& contiguous) { return contiguous.flatten().view(at::kByte); }

at::Tensor extreme_over(Group& group, const at::Tensor& tensor, ReduceOp op, const Limits& limits) {
  const at::Tensor mine = tensor.detach().contiguous().flatten();
  at::Tensor extreme;
  for (const at::Tensor& bytes : group.all_gather(bytes_of_tensor(mine), limits)) {
    const at::Tensor theirs = bytes.view(mine.scalar_type());
    if (theirs.numel() != mine.numel()) {
      throw RunError(concat("all_reduce() of ", mine.numel(), " elements on this member and ", theirs.numel(),
                            " on another; give tensors of one shape on all"));
    }
    if (!extreme.defined()) {
      extreme = theirs;
    } else if (mine.scalar_type() == at::kBool) {
      extreme = op == ReduceOp::kMin ? extreme.logical_and(theirs) : extreme.logical_or(theirs);
    } else {
      extreme = op == ReduceOp::kMin ? at::minimum(extreme, theirs) : at::maximum(extreme, theirs);
    }
  }
  return extreme;
}

}  // namespace

void all_reduce(Group& group, const at::Tensor& tensor, ReduceOp op, const Limits& limits) {
  require_reducible(tensor, op);
  const at::NoGradGuard no_grad;
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean;
  at::Tensor result = adds ? sum_over(group, tensor, limits) : extreme_over(group, tensor, op, limits);
  if (op == ReduceOp::kMean) result.div_(group.size());
  if (!result.is_alias_of(tensor)) tensor.detach().copy_(result.view(tensor.sizes()));
}

void broadcast(Group& group, const at::Tensor& tensor, int root, const Limits& limits) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) throw ConfigError("broadcast() takes a dense tensor");
  const at::NoGradGuard no_grad;
  const at::Tensor own = tensor.detach(), contiguous = own.contiguous();  // one tensor where it is contiguous
  if (own.numel() == 0) return group.barrier(limits);
  group.broadcast(bytes_of_tensor(contiguous), root, limits);
  if (group.rank() != root && !contiguous.is_same(own)) own.copy_(contiguous);
}

double mean(Group& group, double value, double rows, const Limits& limits) {
  if (!(rows >= 0) || !std::isfinite(rows)) throw ConfigError(concat("a mean over ", rows, " rows; give 0 or more"));
  const std::array<double, 2> mine{rows == 0 ? 0 : rows * value, rows};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(mine, all, limits);
  const auto sum = [&](std::size_t column) {
    return tree_sum(
        Range{0, group.size()}, [&](int member) { return all[2 * static_cast<std::size_t>(member) + column]; },
        std::plus<>());
  };
  if (sum(1) == 0) throw ConfigError("a mean over no rows: no member has any");
  return sum(0) / sum(1);
}

bool any(Group& group, bool mine, const Limits& limits) {
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  const std::array<double, 1> own{mine ? 1.0 : 0.0};
  group.all_gather(own, all, limits);
  for (const double each : all) {
    if (each != 0) return true;
  }
  return false;
}

}  // namespace tandem::comm
