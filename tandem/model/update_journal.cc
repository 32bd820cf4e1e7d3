#include "tandem/model/update_journal.h"

#include <ATen/ATen.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "tandem/base/check.h"

namespace tandem::model {
namespace {

// Copies by address and size: a view for each stretch would cost more than the copy of a small one.
void copy_elements(const at::Tensor& from, const at::Tensor& to, std::int64_t begin, std::int64_t end) {
  const auto element = static_cast<std::int64_t>(from.element_size());
  std::memcpy(static_cast<std::byte*>(to.mutable_data_ptr()) + begin * element,
              static_cast<const std::byte*>(from.const_data_ptr()) + begin * element,
              static_cast<std::size_t>((end - begin) * element));
}

}  // namespace

UpdateJournal::UpdateJournal(std::vector<at::Tensor> vectors) : vectors_(std::move(vectors)) {
  for (const at::Tensor& vector : vectors_) {
    TANDEM_CHECK(vector.is_cpu() && vector.is_contiguous() && vector.sizes() == vectors_.front().sizes(),
                 "a journal of vectors of unequal length, or not in CPU memory");
    copies_.push_back(at::empty_like(vector));
  }
}

void UpdateJournal::keep(std::int64_t begin, std::int64_t end) {
  kept_.push_back({begin, end});
  for (std::size_t i = 0; i < vectors_.size(); ++i) copy_elements(vectors_[i], copies_[i], begin, end);
}

void UpdateJournal::undo() noexcept {
  for (const Span& span : kept_) {
    for (std::size_t i = 0; i < vectors_.size(); ++i) copy_elements(copies_[i], vectors_[i], span.begin, span.end);
  }
  forget();
}

}  // namespace tandem::model
