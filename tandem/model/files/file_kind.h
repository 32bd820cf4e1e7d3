// model/file_kind.h: says what a file is that a reader of weights was given by mistake, and what reads it.
//
// Threads: any.
#pragma once
#include <string>
#include <string_view>

namespace tandem::model {

/// A sentence without its full stop about the file whose bytes are all of `content`: "it is empty", "it is a
/// safetensors file; read it with load_weights_safetensors()". Goes by the first bytes and, of a zip archive, by its
/// end; of a kind that is not known, it tells the first bytes.
[[nodiscard]] std::string kind_of_file(std::string_view content);

/// Whether the first nine bytes are those of a safetensors file, which may still be cut off.
[[nodiscard]] bool begins_as_safetensors(std::string_view content);

/// Whether the bytes begin as a zip archive and have an archive's end.
[[nodiscard]] bool is_whole_zip(std::string_view content);

}  // namespace tandem::model
