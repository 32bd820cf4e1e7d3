// rl/env/state_bytes.h: the bytes of EnvGroup::save() and load(), and of actors, written and read value by value.
//
//   StateWriter out;                              StateReader in(bytes, "my simulator");
//   out.put(steps);                               steps = in.get<std::int32_t>();
//   out.put_bytes(positions);                     const auto positions = in.get_bytes();
//   return out.take();                            in.expect_end();
//
// Values lie one after the other as they lie in memory (little-endian on every machine that Tandem runs on). The reader
// checks every length, so that truncated or foreign bytes become a CheckpointError and never a read past the end.
// Threads: single-thread; plain values.
// Layout: there are no tags and no padding between values. A format that may change puts a version number first and
// checks it by expect(), as the adapters do.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/numpy_random.h"

namespace tandem::rl {

static_assert(std::endian::native == std::endian::little, "saved states are little-endian");

/// Collects values as bytes.
class StateWriter {
 public:
  /// Writes a number or a record without padding.
  template <typename Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  /// Writes a length and then that many bytes.
  void put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<std::uint64_t>(bytes.size()));
    append(bytes);
  }
  /// Writes a text as put_bytes() writes bytes.
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }

  /// Writes what a user's save() returned, anything contiguous, as put_bytes() writes bytes.
  template <typename Range>
  void put_range(const Range& values) {
    put_bytes(std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values))));
  }
  /// Writes how the state of a group of environments begins.
  void put_group(std::uint32_t format, std::string_view id, std::size_t environments) {
    put(format);
    put_text(id);
    put(std::uint64_t{environments});
  }

  /// The bytes so far; the writer is empty then.
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  // insert() would be shorter, but gcc 12 then warns of an overflow, wrongly, in the code of users' environments.
  void append(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const std::size_t end = bytes_.size();
    bytes_.resize(end + bytes.size());
    std::memcpy(bytes_.data() + end, bytes.data(), bytes.size());
  }

  std::vector<std::byte> bytes_;
};

/// Reads what a StateWriter wrote, in the same order. `bytes` must outlive it and the spans that it hands out. After an
/// exception the reader is of no further use.
class StateReader {
 public:
  /// `subject` says in messages whose state is read: "saved state of SUBJECT cannot be used: ...".
  StateReader(std::span<const std::byte> bytes, std::string subject) : rest_(bytes), subject_(std::move(subject)) {}

  /// The next value; `Value` must be the type that was put. Throws CheckpointError when fewer bytes are left than the
  /// value has.
  template <typename Value>
  [[nodiscard]] Value get() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value;
    std::memcpy(&value, next(sizeof(Value)).data(), sizeof(Value));
    return value;
  }
  /// The next bytes, with the length that put_bytes() wrote. They lie in `bytes` and are not copied. Throws
  /// CheckpointError when the length is larger than the rest.
  [[nodiscard]] std::span<const std::byte> get_bytes() { return next(get<std::uint64_t>()); }

  /// The next text, as put_text() wrote it; it lies in `bytes`.
  [[nodiscard]] std::string_view get_text() {
    const std::span<const std::byte> bytes = get_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// Throws CheckpointError unless the next value equals `expected`; `what` names it: "its format".
  template <typename Value>
  void expect(const Value& expected, const char* what) {
    const Value found = get<Value>();
    if (found != expected) fail(concat(what, " is ", found, " and must be ", expected));
  }
  /// Throws CheckpointError unless the next text equals `expected`. The texts are compared byte by byte.
  void expect_text(std::string_view expected, const char* what) {
    const std::string_view found = get_text();
    if (found != expected) fail(concat(what, " is '", found, "' and must be '", expected, "'"));
  }
  /// Throws CheckpointError unless put_group() wrote the same next.
  void expect_group(std::uint32_t format, std::string_view id, std::size_t environments) {
    expect(format, "its format");
    expect_text(id, "its environment");
    expect(std::uint64_t{environments}, "its number of environments");
  }
  /// Throws CheckpointError when bytes are left over. Left-over bytes mean that the state was written by another
  /// version, or by another environment.
  void expect_end() const {
    if (!rest_.empty()) fail(concat(rest_.size(), " bytes are left over"));
  }

  /// Throws CheckpointError with the subject and the reason. Users of a reader call it for values that can be read and
  /// cannot be right.
  [[noreturn]] void fail(const std::string& reason) const {
    throw CheckpointError(concat("saved state of ", subject_, " cannot be used: ", reason));
  }

 private:
  // The next `count` bytes. `count` may come from the bytes themselves, so it is compared with the rest first.
  std::span<const std::byte> next(std::uint64_t count) {
    if (count > rest_.size()) fail(concat("it ends ", count - rest_.size(), " bytes too early"));
    const std::span<const std::byte> head = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(static_cast<std::size_t>(count));
    return head;
  }

  // The bytes that have not been read yet.
  std::span<const std::byte> rest_;
  const std::string subject_;
};

/// What an adapter keeps for one environment of a user's.
struct EpisodeState {
  /// Runs on over episodes. A struct may keep a reference to it, so it never moves once the struct has been reset.
  NumpyGenerator random;
  /// Steps of the current episode that are done.
  std::int32_t elapsed = 0;

  void put(StateWriter& writer) const {
    writer.put(random.state());
    writer.put(elapsed);
  }
  /// Reads what put() wrote of environment `e`. Throws CheckpointError for an episode beyond `limit` steps; 0: there is
  /// no limit.
  void get(StateReader& reader, std::size_t e, int limit) {
    random.set_state(reader.get<NumpyGenerator::State>());
    elapsed = reader.get<std::int32_t>();
    if (elapsed >= 0 && (limit == 0 || elapsed < limit)) return;
    reader.fail(concat("environment ", e, " is ", elapsed, " steps into its episode; the limit is ", limit));
  }
};

}  // namespace tandem::rl
