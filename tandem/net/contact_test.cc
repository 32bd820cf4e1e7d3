#include "tandem/net/contact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kOfAContact(32, 'a');

TEST(ContactTest, SaysWhatItsListenerIs) {
  const Listener within({Reach::kThisHost}, "a test");
  const Contact local = read_contact(within.contact());
  EXPECT_EQ(local.secret.size(), 32U);
  EXPECT_THAT(local.place.local, HasSubstr("tandem"));
  EXPECT_EQ(local.place.port, 0);

  const Contact remote = read_contact(kOfAContact + " 4321 127.0.0.1 ::1");
  EXPECT_THAT(remote.place.addresses, ElementsAre("127.0.0.1", "::1"));
  EXPECT_EQ(remote.place.port, 4321);
}

TEST(ContactTest, RefusesWhatIsNone) {
  std::string many = kOfAContact + " 1";
  for (int i = 0; i < 1001; ++i) many += concat(" 10.0.", i / 256, ".", i % 256);
  for (const std::string& text :
       std::vector<std::string>{"", kOfAContact, "short 1 127.0.0.1", kOfAContact + " 0 127.0.0.1",
                                kOfAContact + " 65536 127.0.0.1", kOfAContact + " -1 127.0.0.1", kOfAContact + " 1",
                                kOfAContact + " local", kOfAContact + " local " + std::string(101, 'x'),
                                kOfAContact + " local x y", many, kOfAContact + " 1 " + std::string(70'000, '1')}) {
    EXPECT_THAT([&] { (void)read_contact(text); }, ThrowsMessage<RunError>(HasSubstr("is no contact"))) << text;
  }
  EXPECT_THAT([&] { (void)read_contact("\x1b[2J"); }, ThrowsMessage<RunError>(::testing::Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace tandem::net
