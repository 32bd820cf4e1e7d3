// base/testing/address_sanitizer.h: TANDEM_ADDRESS_SANITIZER is defined in builds under AddressSanitizer, where a test
// takes several times as long and memory cannot be limited. GCC says so in another way than Clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define TANDEM_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TANDEM_ADDRESS_SANITIZER
#endif
#endif
