// device/one_core.h: keeps what a thread computes on its own core.
#pragma once

namespace tandem::device {

/// From now on LibTorch's operations of this thread run on this thread alone, so that what a sum's order depends on is
/// fixed, and the other cores are other threads'. Cheap when that is so already. Any thread.
void use_one_core();

}  // namespace tandem::device
