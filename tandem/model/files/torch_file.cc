#include "tandem/model/files/torch_file.h"

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/model/files/file_kind.h"
#include "tandem/model/files/pickle_reader.h"
#include "tandem/model/files/zip_archive.h"
#include "tandem/model/state_hash.h"

namespace tandem::model {
namespace {

// Returns the value with every tensor copied to the CPU, into a storage that holds nothing else: the pickler writes
// whole storages, and a view of flat parameters would bring all of them along.
at::IValue packed(const at::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    TANDEM_EXPECTS(tensor.defined() && tensor.layout() == at::kStrided, "only dense tensors can be saved; got ",
                   tensor.defined() ? "a sparse one" : "an undefined one");
    return tensor.detach().cpu().clone(at::MemoryFormat::Contiguous);
  }
  if (value.isGenericDict()) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& entry : value.toGenericDict()) dict.insert(entry.key(), packed(entry.value()));
    return dict;
  }
  if (value.isList()) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const at::IValue& element : value.toListRef()) list.push_back(packed(element));
    return list;
  }
  if (value.isTuple()) {
    std::vector<at::IValue> elements;
    for (const at::IValue& element : value.toTupleRef().elements()) elements.push_back(packed(element));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  return value;
}

// C++'s torch::save() and torch.jit.save() write the same kind of archive, with a program in it, which the former
// leaves without functions. What they hold is not read here; nor is the program, which is compressed.
void refuse_programs(const ZipArchive& archive) {
  const std::string code = concat(archive.folder(), "code/");
  const auto holds_code = [&code](const auto& record) { return record.first.starts_with(code); };
  if (!archive.has(concat(archive.folder(), "constants.pkl")) && std::ranges::none_of(archive.records(), holds_code))
    return;
  throw CheckpointError(
      "it is an archive of C++'s torch::save(). Read it with torch::load(net, path), and write it once more with "
      "save_weights_torch() if Python or Tandem is to read it. Or it is a TorchScript program (torch.jit.save). In "
      "Python, torch.save(torch.jit.load(\"program.pt\").state_dict(), \"net.pt\") makes a file that can be read here; "
      "in "
      "C++, torch::jit::load() reads the program");
}

// A later version may mean something else by the same records. The record is a number and a line feed.
void check_version(const ZipArchive& archive) {
  constexpr std::uint64_t kNewest = caffe2::serialize::kMaxSupportedFileFormatVersion;
  const std::string name = concat(archive.folder(), "version");
  if (!archive.has(name)) return;
  const std::string_view text = archive.at(name);
  const auto version = parse_number<std::uint64_t>(text.substr(0, text.find('\n')));
  if (version && *version >= 1 && *version <= kNewest) return;
  throw CheckpointError(concat("its format version is '", text.substr(0, 20), "'; versions 1 to ", kNewest,
                               " can be read: save it with an older PyTorch, or with safetensors"));
}

// The elements of a record. Each is copied out of the file once, so that its memory is aligned and lives on.
at::Tensor elements_of(std::string_view record, const std::string& key, at::ScalarType dtype, std::int64_t count) {
  const std::size_t size = c10::elementSize(dtype);
  if (record.size() % size != 0 || record.size() / size != static_cast<std::size_t>(count))
    throw CheckpointError(concat("storage ", key, " has ", record.size(), " bytes for ", count, " of ", dtype));
  if (dtype == at::kBool && std::ranges::any_of(record, [](char byte) { return byte != 0 && byte != 1; }))
    throw CheckpointError(concat("storage ", key, " is boolean but has elements other than 0 and 1"));
  at::Tensor elements = at::empty({count}, dtype);
  if (count > 0) std::memcpy(elements.mutable_data_ptr(), record.data(), record.size());
  return elements;
}

// The archive: "byteorder", the pickle "data.pkl", and one record "data/KEY" for each storage that the pickle names,
// all in one folder.
at::IValue read(std::string_view content) {
  const ZipArchive archive(content);
  const std::string folder(archive.folder());
  if (archive.has(folder + "byteorder") && archive.at(folder + "byteorder") != "little")
    throw CheckpointError("its numbers are big-endian");
  refuse_programs(archive);
  check_version(archive);
  return read_pickle(archive.at(folder + "data.pkl"),
                     [&](const std::string& key, at::ScalarType dtype, std::int64_t count) {
                       return elements_of(archive.at(concat(folder, "data/", key)), key, dtype, count);
                     });
}

// Refuses what a dict has besides tensors under names; of a checkpoint that holds a state_dict() beside other things,
// it names the entry.
void require_tensors(const c10::impl::GenericDict& dict) {
  std::string other, inner;
  for (const auto& entry : dict) {
    if (entry.key().isString() && entry.value().isTensor()) continue;
    const std::string key = entry.key().isString() ? entry.key().toStringRef() : "a key that is no name";
    if (other.empty()) other = concat("'", key, "' (", entry.value().tagKind(), ")");
    if (inner.empty() && entry.value().isGenericDict()) inner = key;
  }
  if (other.empty()) return;
  throw CheckpointError(
      concat("it holds a dict with other things than tensors under names, ", other,
             " say, which is no state_dict() of a module. Save torch.save(net.state_dict(), ...) alone",
             inner.empty() ? "" : concat(", or read '", inner, "' of what load_torch_file() returns")));
}

}  // namespace

// Writes the records that read() takes, without type tags, which torch.load(weights_only=True) refuses.
void save_torch_file(const at::IValue& value, const std::filesystem::path& path) {
  std::string pickle, file;
  torch::jit::Pickler pickler([&pickle](const char* data, std::size_t size) { pickle.append(data, size); }, nullptr,
                              nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(packed(value));
  pickler.stop();
  caffe2::serialize::PyTorchStreamWriter writer([&file](const void* data, std::size_t size) {
    file.append(static_cast<const char*>(data), size);
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  writer.writeRecord("byteorder", "little", 6);
  const std::vector<at::Tensor>& tensors = pickler.tensorData();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    writer.writeRecord(concat("data/", i), tensors[i].const_data_ptr(), tensors[i].nbytes());
  writer.writeEndOfFile();
  write_file(path, file);
}

// A file that is no whole archive is named by what it is.
at::IValue load_torch_file(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  if (!is_whole_zip(content))
    throw CheckpointError(concat(path.string(), " is no file of torch.save(): ", kind_of_file(content)));
  try {
    return read(content);
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat(path.string(), ": ", error.what()));
  }
}

void save_weights_torch(const torch::nn::Module& module, const std::filesystem::path& path) {
  c10::impl::GenericDict state(c10::AnyType::get(), c10::AnyType::get());
  for (const auto& [name, tensor] : tensors_of(module)) state.insert(name, tensor);
  save_torch_file(state, path);
}

// Accepts what torch.save(net.state_dict()) writes: a dict of tensors under names, and nothing else.
void load_weights_torch(torch::nn::Module& module, const std::filesystem::path& path) {
  const at::IValue value = load_torch_file(path);
  if (!value.isGenericDict()) {
    throw CheckpointError(concat(path.string(), " holds a ", value.tagKind(),
                                 ", not a dict of tensors, as torch.save(net.state_dict(), ...) makes it in Python"));
  }
  try {
    require_tensors(value.toGenericDict());
    NamedTensors saved;
    for (const auto& entry : value.toGenericDict())
      saved.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
    copy_named(saved, tensors_of(module));
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat(path.string(), ": ", error.what()));
  }
}

}  // namespace tandem::model
