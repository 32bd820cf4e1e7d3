// model/torch_file.h: files that Python's torch.load() reads, with weights_only=True, and what its torch.save() wrote.
//
//     model::save_weights_torch(*net, "net.pt");    // net.load_state_dict(torch.load("net.pt"))
//     model::load_weights_torch(*net, "net.pt");    // torch.save(net.state_dict(), "net.pt")
//
// LibTorch's torch::pickle_save() writes type tags that weights_only refuses, and its pickle_load() does not read a
// state_dict(), which is an OrderedDict. model/safetensors.h writes and reads the same tensors in a simpler format.
//
// A file may come from a stranger: reading costs memory and time in proportion to its size, or is refused
// (model/files/pickle_reader.h says where).
//
// Threads: any, while nothing writes to the tensors. Blocks on the disk; holds the file in memory once. Errors:
// CheckpointError with the path, and with everything that does not fit. Of a file that is none of Python's
// torch.save(), it names the kind (an archive of C++'s torch::save(), a whole pickled module, a TorchScript program,
// safetensors, a file that is empty or cut off) and what reads it.
#pragma once
#include <ATen/core/ivalue.h>

#include <filesystem>

namespace torch::nn {
class Module;
}

namespace tandem::model {

/// Plain data: None, bool, int, double, strings, lists, tuples, dicts with string or int keys, and dense tensors, which
/// are written without what else lies in their storages. The file is whole or not there.
void save_torch_file(const at::IValue& value, const std::filesystem::path& path);
/// Dicts come as GenericDict, lists as GenericList; tensors are on the CPU and, as in Python, share memory with those
/// that the file has in the same storage. Nothing in the file is called.
[[nodiscard]] at::IValue load_torch_file(const std::filesystem::path& path);

/// The parameters and buffers of a module, as state_dict() of the same module in Python.
void save_weights_torch(const torch::nn::Module& module, const std::filesystem::path& path);
/// The reverse. The module is unchanged when a name is missing or extra, or a shape or dtype differs.
void load_weights_torch(torch::nn::Module& module, const std::filesystem::path& path);

}  // namespace tandem::model
