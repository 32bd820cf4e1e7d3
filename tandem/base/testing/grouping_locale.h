// A global locale that writes 43210.5 as "43.210,5", while an object lives, for tests of what does not depend on it.
//
// Threads: while no other thread formats or reads numbers.
#pragma once
#include <locale>
#include <string>

namespace tandem {

class GroupingLocale {
 public:
  GroupingLocale() : before_(std::locale::global(std::locale(std::locale::classic(), new Grouping))) {}
  ~GroupingLocale() { std::locale::global(before_); }
  GroupingLocale(const GroupingLocale&) = delete;
  GroupingLocale& operator=(const GroupingLocale&) = delete;

 private:
  struct Grouping : std::numpunct<char> {
    [[nodiscard]] char do_thousands_sep() const override { return '.'; }
    [[nodiscard]] char do_decimal_point() const override { return ','; }
    [[nodiscard]] std::string do_grouping() const override { return "\3"; }
  };

  const std::locale before_;
};

}  // namespace tandem
