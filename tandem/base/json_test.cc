#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

std::string written(double number) { return JsonWriter().value(number).text(); }

TEST(JsonWriterTest, WritesEveryKindCompactly) {
  JsonWriter json;
  json.begin_object().key("a").value(1).key("b").begin_array().value(0.5).value("x").value(true).value(nullptr);
  json.begin_object().end_object().begin_array().end_array().end_array().key("c").value(
      std::numeric_limits<std::uint64_t>::max());
  json.key("d").value(std::numeric_limits<std::int64_t>::min()).end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[0.5,"x",true,null,{},[]],"c":18446744073709551615,"d":-9223372036854775808})");
}

TEST(JsonWriterTest, EscapesWhatJsonForbids) {
  EXPECT_EQ(JsonWriter().value("a\"b\\c\n\r\t\x01\x1f é").text(), R"("a\"b\\c\n\r\t\u0001\u001f é")");
  EXPECT_EQ(JsonWriter().value(std::string_view("\0", 1)).text(), R"("\u0000")");
  EXPECT_EQ(JsonWriter().begin_object().key("\"").value(1).end_object().text(), R"({"\"":1})");
}

TEST(JsonWriterTest, WritesNullForWhatIsNotFinite) {
  EXPECT_EQ(written(std::nan("")), "null");
  EXPECT_EQ(written(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(written(-std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonWriterTest, RefusesPiecesOutOfPlace) {
  EXPECT_THROW(JsonWriter().begin_object().value(1), InvariantError);
  EXPECT_THROW(JsonWriter().key("a"), InvariantError);
  EXPECT_THROW(JsonWriter().begin_array().key("a"), InvariantError);
  EXPECT_THROW(JsonWriter().begin_object().key("a").end_object(), InvariantError);
  EXPECT_THROW(JsonWriter().begin_object().key("a").key("b"), InvariantError);
  EXPECT_THROW(JsonWriter().begin_array().end_object(), InvariantError);
  EXPECT_THROW(JsonWriter().value(1).value(2), InvariantError);
  EXPECT_THROW((void)JsonWriter().begin_array().text(), InvariantError);
  EXPECT_THROW((void)JsonWriter().text(), InvariantError);
}

TEST(JsonTest, DoublesComeBackAsTheSameBits) {
  std::vector<double> numbers{0.0, -0.0, 0.1, 1e21, 5e-324, std::numeric_limits<double>::max(), 1.0 / 3, -2.5e-10, 100};
  Philox random(1);
  while (numbers.size() < 5000) {
    const double number = std::bit_cast<double>(random.next_u64());
    if (std::isfinite(number)) numbers.push_back(number);
  }
  for (const double number : numbers) {
    const double back = read_json(written(number)).as_double();
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(number)) << written(number);
  }
}

TEST(JsonReaderTest, ReadsEveryKind) {
  const JsonValue value = read_json(" { \"a\" : [ 1 , -2.5e1, true, false, null ], \"b\": {\"c\": \"d\"} }\n");
  const JsonValue::Array& a = value.at("a").as_array();
  EXPECT_EQ(a.at(0).as_int64(), 1);
  EXPECT_EQ(a.at(0).as_double(), 1.0);
  EXPECT_EQ(a.at(1).as_double(), -25.0);
  EXPECT_TRUE(a.at(2).as_bool());
  EXPECT_FALSE(a.at(3).as_bool());
  EXPECT_TRUE(a.at(4).is_null());
  EXPECT_EQ(value.at("b").at("c").as_string(), "d");
  EXPECT_EQ(value.find("z"), nullptr);
  EXPECT_EQ(value.as_object().front().first, "a");
}

TEST(JsonReaderTest, KeepsIntegersExactly) {
  EXPECT_EQ(read_json("9223372036854775807").as_int64(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(read_json("-9223372036854775808").as_int64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read_json("18446744073709551615").as_uint64(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(read_json("7").as_uint64(), 7u);
  EXPECT_EQ(read_json("18446744073709551616").as_double(), 18446744073709551616.0);
  EXPECT_THROW((void)read_json("18446744073709551615").as_int64(), JsonError);
  EXPECT_THROW((void)read_json("-1").as_uint64(), JsonError);
  EXPECT_THROW((void)read_json("1.0").as_int64(), JsonError);
}

TEST(JsonReaderTest, ReadsEscapesAndUnicode) {
  EXPECT_EQ(read_json(R"("\"\\\/\b\f\n\r\t")").as_string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read_json(R"("\u0041\u00e9\u20AC\ud83d\ude00")").as_string(), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(read_json("\"\u00e9\u20ac\U0001F600\"").as_string(), "\u00e9\u20ac\U0001F600");
  EXPECT_EQ(read_json(R"("\u0000")").as_string(), std::string(1, '\0'));
}

TEST(JsonReaderTest, RefusesEverythingElse) {
  const std::vector<std::string> malformed{"",
                                           " ",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "[1",
                                           "[1,",
                                           "[1,]",
                                           "[,1]",
                                           "[1 2]",
                                           "{\"a\"}",
                                           "{\"a\":}",
                                           "{\"a\":1,}",
                                           "{a:1}",
                                           "{'a':1}",
                                           "{1:2}",
                                           "{\"a\":1 \"b\":2}",
                                           "nul",
                                           "nulll",
                                           "True",
                                           "truefalse",
                                           "1 2",
                                           "01",
                                           "-",
                                           "-a",
                                           "+1",
                                           ".5",
                                           "1.",
                                           "1.e5",
                                           "1e",
                                           "1e+",
                                           "0x10",
                                           "NaN",
                                           "Infinity",
                                           "-Infinity",
                                           "1e999",
                                           "\"",
                                           "\"a",
                                           "\"\\\"",
                                           "\"\\x\"",
                                           "\"\\u12\"",
                                           "\"\\u12g4\"",
                                           "\"\\ud83d\"",
                                           "\"\\ud83dx\"",
                                           "\"\\ud83d\\u0041\"",
                                           "\"\\ude00\"",
                                           "\"\n\"",
                                           "\"\t\"",
                                           "\"\x80\"",
                                           "\"\xc3\"",
                                           "\"\xc0\xaf\"",
                                           "\"\xe0\x80\xaf\"",
                                           "\"\xed\xa0\x80\"",
                                           "\"\xf0\x80\x80\x80\"",
                                           "\"\xf4\x90\x80\x80\"",
                                           "\"\xf5\x80\x80\x80\"",
                                           "\"\xff\"",
                                           "/*c*/1",
                                           "1//c",
                                           "\xef\xbb\xbf"
                                           "1",
                                           std::string("1\0", 2),
                                           std::string("\0", 1),
                                           "{\"a\":1,\"b\":2,\"a\":3}"};
  for (const std::string& text : malformed) EXPECT_THROW((void)read_json(text), JsonError) << text;
}

TEST(JsonReaderTest, RefusesEveryTruncationOfADocument) {
  const std::string whole = R"({"a":[1.5e3,"x\u00e9\n",true,{"b":null}],"c":-7})";
  (void)read_json(whole);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW((void)read_json(std::string_view(whole).substr(0, size)), JsonError) << whole.substr(0, size);
  }
}

TEST(JsonReaderTest, LimitsItsDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  (void)read_json(nested(kJsonBounds.depth));
  EXPECT_THROW((void)read_json(nested(kJsonBounds.depth + 1)), JsonError);
  EXPECT_THROW((void)read_json(std::string(1000000, '[')), JsonError);
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  EXPECT_THROW((void)read_json(objects), JsonError);
}

TEST(JsonReaderTest, LimitsLengthAndNumberOfValues) {
  const Bounds few{.bytes = 20, .items = 4, .depth = 2};
  const auto refusal = [&few](const std::string& text) -> std::string {
    try {
      (void)read_json(text, few);
    } catch (const JsonError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("[1,{\"a\":2}]"), "");
  EXPECT_EQ(refusal("[1,2,3,4]"), "JSON that is not read: at byte 7 of 9, it holds more than 4 values");
  EXPECT_NE(refusal("[[[]]]").find("nested more than 2"), std::string::npos);
  EXPECT_NE(refusal("\"                    \"").find("more than 20 bytes"), std::string::npos);
}

TEST(JsonReaderTest, SaysWhereAndWhat) {
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const JsonError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([] { (void)read_json("[1, x]"); }), "malformed JSON at byte 4 of 6: expected a value, found 'x'");
  EXPECT_EQ(message([] { (void)read_json("[1"); }),
            "malformed JSON at byte 2 of 2: expected ',' or ']', found the end");
  EXPECT_EQ(message([] { (void)read_json("[]").as_string(); }), "expected a string, found an array");
  EXPECT_EQ(message([] { (void)read_json("{\"a\":1,\"b\":2}").at("c"); }), "the key 'c' is missing; there are: a, b");
}

}  // namespace
}  // namespace tandem
