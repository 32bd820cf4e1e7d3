#include "tandem/comm/links/peer_wire.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>

namespace tandem::comm {
namespace {

// Writes to a peer that is gone in the thread that starts an operation, as Gloo does while its own has not noticed.
class BackendToNobody final : public c10d::Backend {
 public:
  BackendToNobody() : c10d::Backend(0, 2) {
    if (::pipe(ends_.data()) != 0) throw std::runtime_error("no pipe");
    ::close(ends_[0]);
  }
  ~BackendToNobody() override { ::close(ends_[1]); }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>&, int, int) override { return write(); }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>&, int, int) override { return write(); }

 private:
  c10::intrusive_ptr<c10d::Work> write() {
    if (::write(ends_[1], "x", 1) == -1 && errno == EPIPE) throw std::runtime_error("nobody is there");
    return {};
  }
  std::array<int, 2> ends_{};
};

// A rank that was stopped finds its peers gone when it asks them, in the thread that waits.
TEST(PeerWireTest, WhoeverWritesToAPeerThatIsGoneGetsAnErrorAndNoSignal) {
  PeerWire wire(c10::make_intrusive<BackendToNobody>());
  char byte = 'x';
  EXPECT_THROW((void)wire.send(1, &byte, 1, PeerWire::Tag::kMessages), std::runtime_error);
  EXPECT_THROW((void)wire.receive(1, &byte, 1, PeerWire::Tag::kPayloads), std::runtime_error);
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  EXPECT_EQ(sigismember(&now, SIGPIPE), 0);
}

TEST(BrokenPipeMaskTest, AWriteToNobodyFailsAndDoesNotEndTheProcess) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  {
    const BrokenPipeMask outer;
    const BrokenPipeMask inner;
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
  }
  ::close(ends[1]);
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  EXPECT_EQ(sigismember(&now, SIGPIPE), 0);
}

}  // namespace
}  // namespace tandem::comm
