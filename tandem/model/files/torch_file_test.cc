#include "tandem/model/files/torch_file.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <fstream>
#include <sstream>

#include "tandem/base/error.h"
#include "tandem/base/testing/grouping_locale.h"
#include "tandem/base/text.h"
#include "tandem/model/files/pickle_reader.h"
#include "tandem/model/files/safetensors.h"

namespace tandem::model {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct TorchFileTest : ::testing::Test {
  std::filesystem::path path = std::filesystem::path(::testing::TempDir()) /
                               (::testing::UnitTest::GetInstance()->current_test_info()->name() + ".pt"s);
  void TearDown() override { std::filesystem::remove(path); }
};

torch::nn::Sequential make_saved_net(double value) {
  torch::nn::Sequential net(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : net->parameters()) parameter.fill_(value);
  for (torch::Tensor& buffer : net->buffers()) buffer.fill_(value);
  return net;
}

TEST_F(TorchFileTest, WeightsComeBack) {
  auto saved = make_saved_net(2), loaded = make_saved_net(3);
  save_weights_torch(*saved, path);
  load_weights_torch(*loaded, path);
  for (const torch::Tensor& parameter : loaded->parameters()) EXPECT_TRUE(parameter.eq(2).all().item<bool>());
  for (const torch::Tensor& buffer : loaded->buffers()) EXPECT_TRUE(buffer.eq(2).all().item<bool>());
  EXPECT_TRUE(loaded->parameters()[0].requires_grad());
}

// Names of records have numbers, beyond 999 as well.
TEST_F(TorchFileTest, AFileOfManyTensorsDoesNotDependOnTheLocale) {
  const GroupingLocale grouping;
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  for (int i = 0; i < 1002; ++i) dict.insert(concat("t", i), torch::full({2}, i));
  save_torch_file(dict, path);
  const c10::impl::GenericDict read = load_torch_file(path).toGenericDict();
  EXPECT_EQ(read.size(), 1002U);
  EXPECT_EQ(read.at("t1001").toTensor()[1].item<int>(), 1001);
}

TEST_F(TorchFileTest, PlainDataComesBackAndViewsAreWrittenAlone) {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  c10::impl::GenericList list(c10::AnyType::get());
  const torch::Tensor large = torch::arange(1 << 20);
  list.push_back(large.view({1 << 10, 1 << 10}).slice(0, 0, 2).slice(1, 5, 8).t());
  list.push_back(std::int64_t{-70000000000});
  list.push_back(0.1);
  dict.insert("list", list);
  dict.insert(std::int64_t{7}, c10::ivalue::Tuple::create(c10::IValue(), true, "text"));
  dict.insert("half", torch::full({}, 0.5, torch::kBFloat16));
  save_torch_file(dict, path);
  EXPECT_LT(std::filesystem::file_size(path), 4096U);

  const auto read = load_torch_file(path).toGenericDict();
  const auto items = read.at("list").toList();
  EXPECT_TRUE(torch::equal(items.get(0).toTensor(), torch::tensor({5, 1029, 6, 1030, 7, 1031}).view({3, 2})));
  EXPECT_EQ(items.get(1).toInt(), -70000000000);
  EXPECT_EQ(items.get(2).toDouble(), 0.1);
  const auto& tuple = read.at(std::int64_t{7}).toTupleRef().elements();
  EXPECT_TRUE(tuple[0].isNone() && tuple[1].toBool());
  EXPECT_EQ(tuple[2].toStringRef(), "text");
  EXPECT_TRUE(torch::equal(read.at("half").toTensor(), torch::full({}, 0.5, torch::kBFloat16)));
}

TEST_F(TorchFileTest, WhatDoesNotFitIsListedAndTheModuleUnchanged) {
  save_weights_torch(*torch::nn::Sequential(torch::nn::Linear(4, 2)), path);
  auto net = make_saved_net(3);
  EXPECT_THAT([&] { load_weights_torch(*net, path); },
              ThrowsMessage<CheckpointError>(AllOf(HasSubstr(path.string()), HasSubstr("'0.weight' is Float [2, 4]"),
                                                   HasSubstr("'1.running_mean'"))));
  EXPECT_TRUE(net->parameters()[0].eq(3).all().item<bool>());
}

TEST_F(TorchFileTest, AFileOfAnotherKindIsRefused) {
  std::ofstream(path) << "no archive";
  EXPECT_THAT([&] { (void)load_torch_file(path); }, ThrowsMessage<CheckpointError>(HasSubstr("torch.save()")));
}

// Everything that people give by mistake is named, with what reads it.
class OtherFileTest : public TorchFileTest {
 protected:
  void expect(const std::string& words) {
    auto net = make_saved_net(3);
    EXPECT_THAT([&] { load_weights_torch(*net, path); },
                ThrowsMessage<CheckpointError>(AllOf(HasSubstr(path.string()), HasSubstr(words))));
    EXPECT_TRUE(net->parameters()[0].eq(3).all().item<bool>()) << "changed by what was refused";
  }
  void write(const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  [[nodiscard]] std::string bytes() const {
    std::ostringstream all;
    all << std::ifstream(path, std::ios::binary).rdbuf();
    return all.str();
  }
  // What Python's torch.save() writes around a pickle.
  void write_archive(const std::string& pickle) {
    caffe2::serialize::PyTorchStreamWriter writer(path.string());
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeEndOfFile();
  }
};

TEST_F(OtherFileTest, ArchivesOfTorchSaveInCppNameTorchLoad) {
  torch::save(make_saved_net(2), path.string());
  expect("it is an archive of C++'s torch::save(). Read it with torch::load(net, path)");
  torch::optim::Adam optimizer(make_saved_net(2)->parameters());
  torch::save(optimizer, path.string());
  expect("it is an archive of C++'s torch::save()");
  torch::save(torch::ones({3}), path.string());
  expect("it is an archive of C++'s torch::save()");
}

TEST_F(OtherFileTest, TorchScriptIsNamed) {
  torch::jit::Module program("Net");
  program.define("def forward(self, x):\n  return x + 1\n");
  program.save(path.string());
  expect("it is a TorchScript program (torch.jit.save). In Python, torch.save(torch.jit.load(");
}

TEST_F(OtherFileTest, AWholePickledModuleNamesItsClassAndStateDict) {
  write_archive(
      "\x80\x02"
      "c__main__\nNet\n)\x81}X\x08\0\0\0training\x88sb."s);
  expect("an object of the Python class 'Net'");
  expect("save torch.save(net.state_dict(), ...)");
}

TEST_F(OtherFileTest, ADictWithOtherThingsNamesTheOneThatMayBeMeant) {
  write_archive("\x80\x02}(X\x05\0\0\0epochK\x03X\x05\0\0\0model}u."s);
  expect("'epoch' (Int) say");
  expect("or read 'model' of what load_torch_file() returns");
}

TEST_F(OtherFileTest, OtherFormatsAreNamed) {
  save_weights_safetensors(*make_saved_net(2), path);
  expect("it is a safetensors file; read it with load_weights_safetensors()");
  write("");
  expect("it is empty");
  save_weights_torch(*make_saved_net(2), path);
  write(bytes().substr(0, bytes().size() / 2));
  expect("that is cut off after");
  write("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
  expect("before PyTorch 1.6");
  write("version https://git-lfs.github.com/spec/v1\noid sha256:0");
  expect("git lfs pull");
  write("no archive");
  expect("10 bytes that begin with 6e 6f 20 61");
}

TEST_F(OtherFileTest, ASafetensorsReaderNamesTorchsFiles) {
  auto net = make_saved_net(3);
  save_weights_torch(*net, path);
  EXPECT_THAT([&] { load_weights_safetensors(*net, path); },
              ThrowsMessage<CheckpointError>(HasSubstr("load_weights_torch() reads those of torch.save()")));
}

// A storage "0" with the elements 0, 1, 2, 3.
at::IValue read(const std::string& program) {
  return read_pickle("\x80\x02" + program, [](const std::string&, at::ScalarType dtype, std::int64_t count) {
    return torch::arange(count, dtype);
  });
}

std::string tensor_with(const std::string& offset_sizes_strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(("s + "X\x07\0\0\0storage"s + "ctorch\nFloatStorage\n" + "X\x01\0\0\0"s +
         "0" + "X\x03\0\0\0"s + "cpuK\x04tQ" + offset_sizes_strides + "\x89NtR.";
}

TEST(PickleReaderTest, TensorsAreViewsOfTheirStorage) {
  EXPECT_TRUE(torch::equal(read(tensor_with("K\x01K\x03\x85K\x01\x85")).toTensor(), torch::tensor({1.F, 2.F, 3.F})));
}

TEST(PickleReaderTest, TensorsBeyondTheirStorageAreRefused) {
  for (const char* program :
       {"K\x01K\x04\x85K\x01\x85", "K\x04K\x01\x85K\x01\x85", "J\xff\xff\xff\xffK\x01\x85K\x01\x85",
        "K\x01M\xff\xff\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"}) {
    EXPECT_THROW((void)read(tensor_with(program)), CheckpointError);
  }
  EXPECT_THROW((void)read(tensor_with("K\x01M\xff\xff\x85\x89\x85")), CheckpointError);
}

TEST(PickleReaderTest, NothingIsCalled) {
  EXPECT_THAT([] { (void)read("cos\nsystem\n(" + "X\x02\0\0\0lstR."s); },
              ThrowsMessage<CheckpointError>(HasSubstr("'os system'")));
}

TEST(PickleReaderTest, WhatIsCutOffOrNestedTooDeepIsRefused) {
  const std::string whole = tensor_with("K\x01K\x03\x85K\x01\x85");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW((void)read(whole.substr(0, size)), CheckpointError) << size;
  EXPECT_THAT([] { (void)read("N" + std::string(100000, '\x85') + "."); },
              ThrowsMessage<CheckpointError>(HasSubstr("nested")));
}

TEST(PickleReaderTest, AttributesOfAnOrderedDictArePassedOver) {
  const at::IValue value =
      read("ccollections\nOrderedDict\n)R(" + "X\x01\0\0\0"s + "aK\x05u}" + "X\x09\0\0\0_metadata}sb."s);
  ASSERT_TRUE(value.isGenericDict());
  EXPECT_EQ(value.toGenericDict().at("a").toInt(), 5);
}

}  // namespace
}  // namespace tandem::model
