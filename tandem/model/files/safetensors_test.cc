#include "tandem/model/files/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstring>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::model {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string written(const NamedTensors& tensors, const SafetensorsMetadata& metadata = {}) {
  std::string file;
  write_safetensors(tensors, metadata, [&](std::span<const std::byte> bytes) {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return file;
}

// A file with this header and this many bytes of data.
std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data, '\1');
}

std::string refusal_of_file(const std::string& file) {
  try {
    (void)parse_safetensors(bytes_of(file));
    return "accepted";
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

NamedTensors one_of_each() {
  NamedTensors all;
  for (const auto dtype : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
                           at::kFloat, at::kDouble}) {
    all.emplace_back(std::string("t.") + at::toString(dtype), at::arange(6, at::kInt).view({2, 3}).to(dtype));
  }
  all.emplace_back("scalar", at::scalar_tensor(2.5));
  all.emplace_back("empty", at::empty({0, 4}));
  all.emplace_back("strided", at::arange(6, at::kFloat).view({2, 3}).t());
  return all;
}

TEST(SafetensorsTest, EveryDtypeComesBackWithTheSameBits) {
  const auto tensors = one_of_each();
  const std::string file = written(tensors, {{"who", "me \"quoted\" \n"}});
  const auto read = read_safetensors(bytes_of(file));
  EXPECT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.at(name).equal(tensor)) << name;
  }
  EXPECT_EQ(read.metadata, (SafetensorsMetadata{{"who", "me \"quoted\" \n"}}));
  EXPECT_THROW((void)read.at("other"), CheckpointError);
}

TEST(SafetensorsTest, DataIsAligned) {
  const std::string file = written(one_of_each());
  const auto layout = parse_safetensors(bytes_of(file));
  EXPECT_EQ(layout.data_begin % 8, 0U);
  for (const auto& entry : layout.entries) EXPECT_EQ(entry.begin % c10::elementSize(entry.dtype), 0U) << entry.name;
}

TEST(SafetensorsTest, AWeightsFileFitsItsModuleAndSaysWhereAnotherDoesNot) {
  const TemporaryFolder folder;
  torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4)),
      same(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4)),
      other(torch::nn::Linear(3, 5), torch::nn::BatchNorm1d(4), torch::nn::Linear(1, 1));
  save_weights_safetensors(*net, folder / "w.safetensors");
  load_weights_safetensors(*same, folder / "w.safetensors");
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    EXPECT_TRUE(net->parameters()[i].equal(same->parameters()[i]));
  try {
    load_weights_safetensors(*other, folder / "w.safetensors");
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    using ::testing::HasSubstr;
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("0.weight"), HasSubstr("0.bias"), HasSubstr("2.weight"),
                                               ::testing::Not(HasSubstr("1.weight"))));
  }
}

TEST(SafetensorsTest, DtypesThatTheFormatLacksAreRefusedByName) {
  EXPECT_THROW((void)written({{"z", at::ones({2}, at::kComplexFloat)}}), CheckpointError);
  EXPECT_THROW((void)written({{"a", at::ones({2})}, {"a", at::ones({2})}}), ConfigError);
}

TEST(SafetensorsFormatTest, WhatIsWrongIsSaid) {
  using ::testing::HasSubstr;
  const auto entry = [](const std::string& shape, const std::string& offsets, const std::string& dtype = "F32") {
    return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  EXPECT_EQ(refusal_of_file(file_of(entry("[2]", "[0,8]"), 8)), "accepted");
  EXPECT_EQ(refusal_of_file(file_of("{}", 0)), "accepted");
  EXPECT_EQ(refusal_of_file(file_of("{}   ", 0)), "accepted");
  EXPECT_THAT(refusal_of_file("1234"), HasSubstr("4 bytes"));
  EXPECT_THAT(refusal_of_file(file_of("{}", 0).substr(0, 9)), HasSubstr("a header of 2 bytes, but 1 follow"));
  EXPECT_THAT(refusal_of_file(std::string(8, '\xff') + "{}"), HasSubstr("at most"));
  EXPECT_THAT(refusal_of_file(file_of(" {}", 0)), HasSubstr("begin with '{'"));
  EXPECT_THAT(refusal_of_file(file_of("{\"a\":", 0)), HasSubstr("header"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[2]", "[0,8]"), 7)), HasSubstr("cut off"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[2]", "[0,8]"), 9)), HasSubstr("1 bytes after the last tensor"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[2]", "[4,12]"), 12)), HasSubstr("should begin at 0"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[2]", "[8,0]"), 8)), HasSubstr("should begin at 0"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[3]", "[0,8]"), 8)), HasSubstr("need 12"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[-1]", "[0,0]"), 0)), HasSubstr("dimension of -1"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[4611686018427387904,4611686018427387904]", "[0,0]"), 0)),
              HasSubstr("too many"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[0,4611686018427387904,4611686018427387904]", "[0,0]"), 0)),
              HasSubstr("too many"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[2]", "[0,8,9]"), 8)), HasSubstr("data_offsets"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[2]", "[0,8]", "F8"), 8)), HasSubstr("F8"));
  EXPECT_THAT(refusal_of_file(file_of(entry("[2.5]", "[0,8]"), 8)), HasSubstr("header"));
  EXPECT_THAT(refusal_of_file(file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8)), HasSubstr("data_offsets"));
  EXPECT_THAT(refusal_of_file(file_of("{\"__metadata__\":{\"a\":1}}", 0)), HasSubstr("header"));
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_THAT(refusal_of_file(file_of(entry(ones + "]", "[0,4]"), 4)), HasSubstr("65 dimensions"));
}

TEST(SafetensorsFormatTest, ABooleanThatIsNeitherIsRefused) {
  std::string file = written({{"b", at::ones({3}, at::kBool)}});
  file.back() = '\2';
  EXPECT_THROW((void)read_safetensors(bytes_of(file)), CheckpointError);
}

// No cut and no single changed byte may crash or read outside (the sanitizers watch); cuts are always noticed.
TEST(SafetensorsFormatTest, EveryCutIsNoticedAndNoChangedByteIsDangerous) {
  const std::string file = written({{"a", at::ones({3})}, {"b", at::zeros({2}, at::kLong)}}, {{"k", "v"}});
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(refusal_of_file(file.substr(0, size)), "accepted") << size;
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (const char flip : {'\x01', '\x20', '\x80', '\xff'}) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      try {
        (void)read_safetensors(bytes_of(changed));
      } catch (const CheckpointError&) {
        continue;  // as it should be
      }
    }
  }
}

}  // namespace
}  // namespace tandem::model
