#include "tandem/rl/policy/kernels/bfloat16_kernels.h"

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/names.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tandem::rl {
namespace {

constexpr Names<3> kComputes{"float32", "bfloat16", "bfloat16_tiles"};

#if defined(__x86_64__)
// Bits of CPUID leaf 7 (Intel's manual, volume 2): those of sub-leaf 0 in EDX and of sub-leaf 1 in EAX.
constexpr unsigned kAmxBfloat16 = 1U << 22, kAmxTile = 1U << 24, kAvx512Bfloat16 = 1U << 5;

bool has_vectors() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bfloat16) != 0;
}

// Linux gives a process the tiles' state, which is large, when it asks for it (arch_prctl(2), ARCH_REQ_XCOMP_PERM);
// asking again is harmless.
bool has_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxBfloat16) == 0 || (d & kAmxTile) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool has_vectors() { return false; }
bool has_tiles() { return false; }
#endif

// Why not, in a clause; empty when it can.
std::string missing_for(Compute compute, InstructionSet set) {
  if (compute == Compute::kFloat32) return "";
  if (set != InstructionSet::kAvx512) return concat("it goes with the instruction set avx512, not ", name_of(set));
  if (!has_vectors()) return "this processor lacks AVX-512 BF16";
  if (compute == Compute::kBfloat16Tiles && !has_tiles())
    return "this processor lacks AMX, or the operating system does not give its tiles; bfloat16 works here";
  return "";
}

}  // namespace

const char* name_of(Compute compute) { return name_in(kComputes, compute); }

Compute compute(std::string_view name) { return value_in<Compute>(kComputes, name, "compute"); }

void require_compute(Compute compute, InstructionSet set) {
  require_instruction_set(set);
  const std::string missing = missing_for(compute, set);
  if (!missing.empty()) throw ConfigError(concat("compute ", name_of(compute), ": ", missing, "; use float32"));
}

const Bfloat16Kernels& bfloat16_kernels(Compute compute) {
  TANDEM_CHECK(compute != Compute::kFloat32, "float32 has no products of bfloat16");
  require_compute(compute, InstructionSet::kAvx512);
#if defined(__x86_64__)
  if (compute == Compute::kBfloat16Tiles) return tile_bfloat16_kernels();
  return vector_bfloat16_kernels();
#else
  static constexpr Bfloat16Kernels kNone{};  // require_compute() has thrown
  return kNone;
#endif
}

const Bfloat16Patches& bfloat16_patches(Compute compute) {
  TANDEM_CHECK(compute != Compute::kFloat32, "float32 has no products of bfloat16");
  require_compute(compute, InstructionSet::kAvx512);
#if defined(__x86_64__)
  if (compute == Compute::kBfloat16Tiles) return tile_bfloat16_patches();
  return vector_bfloat16_patches();
#else
  static constexpr Bfloat16Patches kNone{};  // require_compute() has thrown
  return kNone;
#endif
}

}  // namespace tandem::rl
