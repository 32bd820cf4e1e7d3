#include "tandem/model/files/torch_file.h"

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/model/files/file_kind.h"
#include "tandem/model/files/pickle_reader.h"
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
// leaves without functions. What they hold is not read here.
void refuse_programs(caffe2::serialize::PyTorchStreamReader& reader) {
  bool has_code = reader.hasRecord("constants.pkl"), has_functions = false;
  for (const std::string& name : reader.getAllRecords()) {
    if (!name.starts_with("code/")) continue;
    has_code = true;
    if (!name.ends_with(".py")) continue;
    const auto [code, size] = reader.getRecord(name);
    const std::string_view text(static_cast<const char*>(code.get()), size);
    has_functions = has_functions || text.find("\n  def ") != std::string_view::npos;
  }
  if (has_functions) {
    throw CheckpointError(
        "it is a TorchScript program (torch.jit.save). In Python, "
        "torch.save(torch.jit.load(\"program.pt\").state_dict(), "
        "\"net.pt\") makes a file that can be read here; in C++, torch::jit::load() reads the program");
  }
  if (has_code) {
    throw CheckpointError(
        "it is an archive of C++'s torch::save(). Read it with torch::load(net, path), and write it once more with "
        "save_weights_torch() if Python or Tandem is to read it");
  }
}

// The archive: "byteorder", the pickle "data.pkl", and one record "data/KEY" for each storage that the pickle names.
at::IValue read(caffe2::serialize::PyTorchStreamReader& reader) {
  if (reader.hasRecord("byteorder")) {
    const auto [order, size] = reader.getRecord("byteorder");
    if (std::string_view(static_cast<const char*>(order.get()), size) != "little")
      throw CheckpointError("its numbers are big-endian");
  }
  refuse_programs(reader);
  const auto [pickle, size] = reader.getRecord("data.pkl");
  return read_pickle(
      {static_cast<const char*>(pickle.get()), size},
      [&reader](const std::string& key, at::ScalarType dtype, std::int64_t count) {
        const std::string name = "data/" + key;
        const std::size_t bytes = reader.getRecordSize(name);
        if (bytes % c10::elementSize(dtype) != 0 || bytes / c10::elementSize(dtype) != static_cast<std::size_t>(count))
          throw CheckpointError(concat("storage ", key, " has ", bytes, " bytes for ", count, " of ", dtype));
        at::Tensor elements = at::empty({count}, dtype);
        if (count > 0) reader.getRecord(name, elements.mutable_data_ptr(), bytes);
        return elements;
      });
}

// LibTorch's sentences about archives go on with advice that is not for Tandem's users.
std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min(text.find('\n'), text.find(". This")));
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

at::IValue load_torch_file(const std::filesystem::path& path) {
  std::istringstream content(read_file(path));
  try {
    caffe2::serialize::PyTorchStreamReader reader(&content);
    return read(reader);
  } catch (const c10::Error& error) {
    const std::string cause = first_sentence(error.what_without_backtrace());
    throw CheckpointError(
        concat(path.string(), " is no file of torch.save(): ", kind_of_file(content.view()), " (", cause, ")"));
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
