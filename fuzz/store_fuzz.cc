// Question: can any bytes, as a request to a run's store or as a value in it, make a reader crash, hang, take more
// memory than a store may, or read them as something else than they say?
//
// The first byte chooses: 0, a request, and what it does to a store; 1, lists of processes; 2, a number; 3, lines and
// words; 4, the first failure of a run; 5, the deadline of a run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/comm/departure.h"
#include "tandem/comm/store/rendezvous.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/store/store_map.h"
#include "tandem/comm/store/store_request.h"
#include "tandem/comm/store/store_value.h"

namespace {

using namespace tandem;
using namespace tandem::comm;

void apply(StoreMap& values, const StoreRequest& request) {
  switch (request.kind) {
    case StoreRequest::Kind::kSet:
      values.set(request.key, request.value);
      if (values.find(request.key) != request.value) std::abort();
      break;
    case StoreRequest::Kind::kFind:
      (void)values.find(request.key);
      break;
    case StoreRequest::Kind::kAdd:
      if (values.find(request.key) && std::to_string(values.add(request.key, request.amount)).empty()) std::abort();
      break;
    case StoreRequest::Kind::kCompareSet:
      (void)values.compare_set(request.key, request.expected, request.value);
  }
}

// Bytes of several requests: a byte of kind, a byte of length, so many bytes.
void ask_store(std::span<const std::byte> bytes) {
  StoreMap values;
  while (bytes.size() >= 2) {
    const auto kind = std::to_integer<std::uint32_t>(bytes[0]);
    const std::size_t length = std::min(std::to_integer<std::size_t>(bytes[1]), bytes.size() - 2);
    const auto words = bytes.subspan(2, length);
    bytes = bytes.subspan(2 + length);
    try {
      const net::Message message{.kind = kind, .bytes = {words.begin(), words.end()}};
      const StoreRequest request = request_of(message);
      if (message_of(request).bytes != message.bytes || message_of(request).kind != kind) std::abort();
      apply(values, request);
    } catch (const RunError&) {  // the next one is answered all the same
    }
  }
}

void read_lives(const std::string& text) {
  const std::vector<Life> lives = lives_in("round/1/members", text);
  std::set<std::string> names;
  for (const Life& life : lives) names.insert(name_of(life));
  const std::string written = joined(
      lives, [](const Life& life) { return name_of(life); }, " ");
  if (lives.empty() || names.size() != lives.size() || lives_in("round/1/members", written) != lives) std::abort();
}

void read_parts(const std::string& text) {
  for (const char separator : {'\n', ' '}) {
    const auto count = static_cast<std::size_t>(std::ranges::count(text, separator)) + 1;
    if (joined(parts_in("world", text, separator, count), {}, std::string(1, separator)) != text) std::abort();
  }
  (void)parts_in("world", text, '\n', 4);
}

void read_failure(const std::string& text) {
  const std::unique_ptr<Store> store = make_memory_store();
  store->set("first_failure", text);
  const auto failure = first_failure_of(*store);
  if (failure && (failure->rank < 0 || failure->why.size() > text.size())) std::abort();
  const FirstFailure told = tell_first_failure(*store, {1, "mine"});
  if (told.rank < 0) std::abort();
}

void read_deadline(const std::string& text) {
  const std::unique_ptr<Store> store = make_memory_store();
  store->set(kBegunKey, "1");
  store->set(kDeadlineKey, text);
  if (const auto patience = patience_with_stopped(*store, {1, 0}); patience && patience->count() < 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 6) {
      case 0:
        ask_store(std::as_bytes(std::span(data, size)).subspan(1));
        break;
      case 1:
        read_lives(text);
        break;
      case 2:
        if (std::to_string(number_in("joiners", text, -5, kMostLives)) != text && text.front() != '-' &&
            text.front() != '0')
          std::abort();
        break;
      case 3:
        read_parts(text);
        break;
      case 4:
        read_failure(text);
        break;
      default:
        read_deadline(text);
    }
  } catch (const RunError&) {
  }
  return 0;
}
