#include "tandem/net/greeting.h"

#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "tandem/base/digest/hmac.h"

namespace tandem::net {
namespace {

// Tells this greeting from anything else that may be sent to a port, and from that of another version.
constexpr std::uint64_t kGreetingMark = 0x7461'6e64'656d'0003;
constexpr std::uint64_t kAdmittedWord = 0x7961'6365'6b6f'6b21;
constexpr char kTakenWord = 'T';

// Different words for the two directions: nobody can send a code back to who made it.
Sha256::Digest code_of(const Key& key, std::string_view direction, const Challenge& challenge,
                       const Response& response) {
  const std::array parts{std::as_bytes(std::span(direction)), std::as_bytes(std::span(&challenge, 1)),
                         std::as_bytes(std::span(&response.caller, 1)), std::span<const std::byte>(response.random)};
  return hmac_sha256(key, parts);
}
constexpr std::string_view kFromCaller = "tandem: a caller", kFromDoor = "tandem: a door__",
                           kToEncrypt = "tandem: the key_";

// Reads what is there. Returns kAdmitted when the words are complete.
template <typename Words>
Stage read_some(int socket, Incoming<Words>& words, std::string& why) {
  while (!words.rest().empty()) {
    const ssize_t got = ::recv(socket, words.rest().data(), words.rest().size(), MSG_DONTWAIT);
    if (got > 0) {
      words.got(static_cast<std::size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Stage::kPending;
    } else if (got == 0 || errno != EINTR) {
      const bool hung_up = got == 0 || errno == ECONNRESET || errno == EPIPE;
      why = hung_up ? "hung up" : std::generic_category().message(errno);
      return Stage::kGone;
    }
  }
  return Stage::kAdmitted;
}

// These words always fit the buffer of a new connection.
template <typename Words>
bool send_whole(int socket, const Words& words) {
  return ::send(socket, &words, sizeof(words), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof(words));
}

Stage go_on_with(Tls& tls, std::string& why) {
  const Tls::Handshake handshake = tls.shake_hands();
  if (handshake == Tls::Handshake::kDone) return Stage::kAdmitted;
  if (handshake == Tls::Handshake::kPending) return Stage::kPending;
  why = "hung up, or does not encrypt as it said";
  return Stage::kGone;
}

}  // namespace

Key key_of(const std::string& secret) { return hmac_sha256(std::as_bytes(std::span(secret)), "tandem: a greeting"); }

AtTheDoor::AtTheDoor(int socket, const Key& key, Traffic traffic)
    : socket_(socket), key_(key), challenge_{.mark = kGreetingMark, .is_encrypted = traffic == Traffic::kEncrypted} {
  fill_randomly(challenge_.random);
  (void)send_whole(socket_, challenge_);  // who is gone is noticed by the first read
}

Stage AtTheDoor::go_on() {
  if (!is_judged_) {
    const Stage stage = read_some(socket_, response_, why_);
    if (stage != Stage::kAdmitted) return stage;
    if (const Stage verdict = judge(); verdict != Stage::kAdmitted) return verdict;
  }
  const Stage stage = read_some(socket_, taken_, why_);
  if (stage == Stage::kAdmitted && taken_.words() == kTakenWord) return encrypt();
  if (stage == Stage::kAdmitted) why_ = "said something else";
  return stage == Stage::kAdmitted ? Stage::kGone : stage;
}

Stage AtTheDoor::encrypt() {
  if (challenge_.is_encrypted == 0) return Stage::kAdmitted;
  if (tls_ == nullptr) {
    const Key key = code_of(key_, kToEncrypt, challenge_, response_.words());
    tls_ = std::make_unique<Tls>(socket_, key, Tls::Role::kDoor);
  }
  return go_on_with(*tls_, why_);
}

Stage AtTheDoor::judge() {
  is_judged_ = true;
  const Response& response = response_.words();
  if (response.mark != kGreetingMark) {
    why_ = "is no process of tandem, or one of another version";
    return Stage::kGone;
  }
  const bool knows = equal_in_constant_time(response.code, code_of(key_, kFromCaller, challenge_, response));
  Verdict verdict;
  if (knows) verdict = {.admitted = kAdmittedWord, .code = code_of(key_, kFromDoor, challenge_, response)};
  const bool sent = send_whole(socket_, verdict);
  if (!knows) why_ = "does not know the secret";
  if (knows && !sent) why_ = "hung up";
  return !knows ? Stage::kRefused : sent ? Stage::kAdmitted : Stage::kGone;
}

Calling::Calling(int socket, int caller, const Key& key)
    : socket_(socket), key_(key), response_{.mark = kGreetingMark, .caller = caller} {
  fill_randomly(response_.random);
}

Stage Calling::go_on() {
  if (!has_responded_) {
    const Stage stage = read_some(socket_, challenge_, why_);
    if (stage != Stage::kAdmitted) return stage;
    if (challenge_.words().mark != kGreetingMark) {
      why_ = "somebody else answered, or a process of another version";
      return Stage::kGone;
    }
    response_.code = code_of(key_, kFromCaller, challenge_.words(), response_);
    has_responded_ = true;
    if (!send_whole(socket_, response_)) {
      why_ = "hung up";
      return Stage::kGone;
    }
  }
  const Stage stage = read_some(socket_, verdict_, why_);
  if (stage != Stage::kAdmitted) return stage;
  const Verdict& verdict = verdict_.words();
  const bool is_admitted = verdict.admitted == kAdmittedWord;
  if (is_admitted && equal_in_constant_time(verdict.code, code_of(key_, kFromDoor, challenge_.words(), response_)))
    return Stage::kAdmitted;
  why_ = is_admitted ? "does not know the secret" : "refused this process, which has another secret";
  return Stage::kRefused;
}

bool Calling::keep() { return send_whole(socket_, kTakenWord); }

Stage Calling::encrypt() {
  if (challenge_.words().is_encrypted == 0) return Stage::kAdmitted;
  if (tls_ == nullptr) {
    const Key key = code_of(key_, kToEncrypt, challenge_.words(), response_);
    tls_ = std::make_unique<Tls>(socket_, key, Tls::Role::kCaller);
  }
  return go_on_with(*tls_, why_);
}

}  // namespace tandem::net
