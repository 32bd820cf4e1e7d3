# Writes OUTPUT, a source file that holds the YAML files of FOLDER/<algorithm>/<environment>.yaml as text.
#   cmake -DFOLDER=configs/presets -DOUTPUT=presets_data.cc -P TandemPresets.cmake
file(GLOB files RELATIVE ${FOLDER} ${FOLDER}/*/*.yaml)
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  file(READ ${FOLDER}/${file} text)
  get_filename_component(env ${file} NAME_WLE)
  get_filename_component(algo ${file} DIRECTORY)
  string(APPEND entries "    {\"${algo}\", \"${env}\", \"shipped settings ${algo}/${env}\", R\"yaml(${text})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by cmake/TandemPresets.cmake from configs/presets.
#include <array>

#include \"tandem/app/config/presets.h\"

namespace tandem::app {

std::span<const Preset> presets() {
  static constexpr auto kPresets = std::to_array<Preset>({
${entries}  });
  return kPresets;
}

}  // namespace tandem::app
")
