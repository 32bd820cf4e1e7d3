#include "tandem/net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem::net {
namespace {

// The bytes of a record, and of one read of the socket.
constexpr std::size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH, kReadAhead = 8 * kRecord;
constexpr std::array<unsigned char, 2> kCipher{0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr const char* kCipherName = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 6> kIdentity{'t', 'a', 'n', 'd', 'e', 'm'};

template <auto kFree>
struct Freed {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Connected = std::unique_ptr<SSL, Freed<SSL_free>>;

template <typename Object>
Object made(Object object) {
  if (!object) throw RunError("OpenSSL has no memory for a connection");
  return object;
}

// --- the socket as OpenSSL sees it: its own would raise SIGPIPE
// --------------------------------------------------------

int number_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int retried(BIO* bio, ssize_t result, int flags) {
  BIO_clear_retry_flags(bio);
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_flags(bio, flags);
  return static_cast<int>(result);
}

int send_some(BIO* bio, const char* from, int bytes) {
  return retried(bio, ::send(number_of(bio), from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL | MSG_DONTWAIT),
                 BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
}

int receive_some(BIO* bio, char* to, int bytes) {
  const ssize_t got = ::recv(number_of(bio), to, static_cast<std::size_t>(bytes), MSG_DONTWAIT);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return retried(bio, got, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
}

long control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* socket_method() {
  static const std::unique_ptr<BIO_METHOD, Freed<BIO_meth_free>> method = [] {
    std::unique_ptr<BIO_METHOD, Freed<BIO_meth_free>> it(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tandem"));
    if (it == nullptr) throw RunError("OpenSSL has no memory for a connection");
    BIO_meth_set_write(it.get(), send_some);
    BIO_meth_set_read(it.get(), receive_some);
    BIO_meth_set_ctrl(it.get(), control);
    return it;
  }();
  return method.get();
}

// --- the key ---------------------------------------------------------------------------------------------------------

// The session that both ends would have agreed upon earlier. Null where OpenSSL has no memory.
SSL_SESSION* session_of(SSL* connection) {
  const auto& key = *static_cast<const Sha256::Digest*>(SSL_get_app_data(connection));
  std::unique_ptr<SSL_SESSION, Freed<SSL_SESSION_free>> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(connection, kCipher.data());
  const bool is_made =
      session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session.get(), reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return is_made ? session.release() : nullptr;
}

int on_caller(SSL* connection, const EVP_MD* /*hash*/, const unsigned char** identity, std::size_t* bytes,
              SSL_SESSION** session) {
  *identity = kIdentity.data();
  *bytes = kIdentity.size();
  *session = session_of(connection);
  return *session != nullptr ? 1 : 0;
}

int at_door(SSL* connection, const unsigned char* identity, std::size_t bytes, SSL_SESSION** session) {
  const bool is_ours = std::equal(identity, identity + bytes, kIdentity.begin(), kIdentity.end());
  *session = is_ours ? session_of(connection) : nullptr;
  return 1;
}

// A door has no certificate, and a caller believes none: the key alone lets both go on.
Context make_context() {
  Context context = made(Context(SSL_CTX_new(TLS_method())));
  SSL_CTX* it = context.get();
  if (SSL_CTX_set_min_proto_version(it, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(it, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(it, kCipherName) != 1 ||
      SSL_CTX_set1_groups_list(it, "X25519") != 1) {
    throw RunError(concat("this system's OpenSSL offers no TLS 1.3 with ", kCipherName,
                          " and X25519, by which connections between hosts are encrypted; likely its configuration "
                          "(openssl version -d) forbids them"));
  }
  SSL_CTX_clear_options(it, SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_num_tickets(it, 0);
  SSL_CTX_set_session_cache_mode(it, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(it, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(it, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(it, 1);
  SSL_CTX_set_default_read_buffer_len(it, kReadAhead);
  SSL_CTX_set_psk_use_session_callback(it, on_caller);
  SSL_CTX_set_psk_find_session_callback(it, at_door);
  return context;
}

SSL_CTX* shared_context() {
  static const Context context = make_context();
  return context.get();
}

}  // namespace

struct Tls::State {
  State(int socket, const Sha256::Digest& of_both, Role role, std::uint64_t most)
      : key(of_both), bytes_a_key(most), connection(made(Connected(SSL_new(shared_context())))) {
    BIO* bio = made(BIO_new(socket_method()));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): BIO_set_data() takes nothing else
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
    BIO_set_init(bio, 1);
    SSL_set_bio(connection.get(), bio, bio);
    SSL_set_app_data(connection.get(), &key);
    const bool is_door = role == Role::kDoor;
    SSL_set_verify(connection.get(), is_door ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    is_door ? SSL_set_accept_state(connection.get()) : SSL_set_connect_state(connection.get());
  }

  // What recv() and send() would say.
  ssize_t answer(int result, std::size_t bytes) TANDEM_REQUIRES(mutex) {
    if (result == 1) return static_cast<ssize_t>(bytes);
    const int failure = errno;
    switch (SSL_get_error(connection.get(), result)) {
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
      case SSL_ERROR_SYSCALL:
        errno = failure != 0 ? failure : ECONNRESET;
        return -1;
      default:
        errno = EBADMSG;
        return -1;
    }
  }

  // A message about the new key goes out before what it encrypts. There must be room for it now: a reader would wait
  // for its leaving.
  void change_key() TANDEM_REQUIRES(mutex) {
    pollfd room{number_of(SSL_get_rbio(connection.get())), POLLOUT, 0};
    if (::poll(&room, 1, 0) != 1 || room.revents != POLLOUT) return;
    if (SSL_key_update(connection.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 && SSL_do_handshake(connection.get()) == 1)
      encrypted = 0;
  }

  const Sha256::Digest key;
  const std::uint64_t bytes_a_key;
  Mutex mutex;
  const Connected connection;
  std::vector<std::byte> record TANDEM_GUARDED_BY(mutex);
  std::uint64_t encrypted TANDEM_GUARDED_BY(mutex) = 0;   // bytes, with the present key
  bool is_half_written TANDEM_GUARDED_BY(mutex) = false;  // a record waits to be sent
};

Tls::Tls(int socket, const Sha256::Digest& key, Role role, std::uint64_t bytes_a_key)
    : state_(std::make_unique<State>(socket, key, role, bytes_a_key)) {}
Tls::~Tls() = default;

Tls::Handshake Tls::shake_hands() {
  const MutexLock lock(state_->mutex);
  ERR_clear_error();
  const int result = SSL_do_handshake(state_->connection.get());
  if (result == 1) {  // by the key, or not at all
    SSL* const it = state_->connection.get();
    return SSL_session_reused(it) == 1 && SSL_version(it) == TLS1_3_VERSION ? Handshake::kDone : Handshake::kFailed;
  }
  return state_->answer(result, 0) < 0 && errno == EAGAIN ? Handshake::kPending : Handshake::kFailed;
}

ssize_t Tls::read(std::span<std::byte> into) {
  const MutexLock lock(state_->mutex);
  ERR_clear_error();
  std::size_t bytes = 0;
  const int result = SSL_read_ex(state_->connection.get(), into.data(), into.size(), &bytes);
  return state_->answer(result, bytes);
}

// Small parts go together into one record, and so into one packet.
ssize_t Tls::write(std::span<const iovec> parts) {
  const MutexLock lock(state_->mutex);
  ERR_clear_error();
  std::span<const std::byte> next(static_cast<const std::byte*>(parts.front().iov_base), parts.front().iov_len);
  if (parts.size() > 1 && next.size() < kRecord) {
    std::vector<std::byte>& record = state_->record;
    record.clear();
    for (const iovec& part : parts) {
      const auto* const from = static_cast<const std::byte*>(part.iov_base);
      record.insert(record.end(), from, from + std::min(part.iov_len, kRecord - record.size()));
    }
    next = record;
  }
  if (state_->encrypted > state_->bytes_a_key && !state_->is_half_written) state_->change_key();
  std::size_t bytes = 0;
  const int result = SSL_write_ex(state_->connection.get(), next.data(), next.size(), &bytes);
  const ssize_t sent = state_->answer(result, bytes);
  state_->is_half_written = sent < 0 && errno == EAGAIN;
  state_->encrypted += bytes;
  if (sent != 0) return sent;
  errno = EPIPE;  // the other end has hung up
  return -1;
}

}  // namespace tandem::net
