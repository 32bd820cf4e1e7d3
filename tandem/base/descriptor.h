// base/descriptor.h: an open file, pipe or socket of the system, which is closed when its owner is destroyed.
//
// Ownership: one Descriptor owns one number; moving hands the number over.
// Threads: single-thread, except that the number may be used by several threads while nobody closes or moves it.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace tandem {

class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over `number`. A negative number stands for no descriptor. An open number must have no other owner, since it
  /// would be closed twice.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  /// Closes the number held before.
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = other.release();
    }
    return *this;
  }

  /// The number stays owned here; it is negative when nothing is open.
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// Hands the number over to the caller, who has to close it.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  /// An error of the system's close() is not reported, because nothing could be done about it; a caller that needs to
  /// know that
  /// bytes are on the disk calls fsync() before.
  void close() {
    if (is_open()) ::close(release());
  }

 private:
  int number_ = -1;
};

/// Which file a number stands for. A library that closes numbers which are not its own makes them stand for other
/// files, so who writes now and then into a file that matters compares.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  /// Of no file where `descriptor` is not open.
  [[nodiscard]] static FileIdentity of(const Descriptor& descriptor) {
    struct stat status {};
    if (::fstat(descriptor.get(), &status) != 0) return {};
    return {status.st_dev, status.st_ino};
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

}  // namespace tandem
