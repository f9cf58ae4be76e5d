#pragma once
// Text that is always there: the project's own sources and documents.

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// The .hpp, .cpp and .md files of the project whose root is the current directory, or one above it, in a fixed order.
inline std::vector<std::filesystem::path> own_texts() {
  namespace fs = std::filesystem;
  fs::path root = fs::current_path();
  while (!fs::exists(root / "include" / "fulgurite" / "fulgurite.hpp")) {
    if (root == root.parent_path())
      throw std::runtime_error(
          "the project's own sources were not found: run this inside its folder, or give --text FILE");
    root = root.parent_path();
  }
  std::vector<fs::path> files;
  for (std::string_view const folder : {"benchmarks", "docs", "examples", "tests", "include"}) {
    std::vector<fs::path> found;
    if (fs::is_directory(root / folder))
      for (auto const& entry : fs::recursive_directory_iterator(root / folder))
        if (auto const ending = entry.path().extension();
            entry.is_regular_file() && (ending == ".hpp" || ending == ".cpp" || ending == ".md"))
          found.push_back(entry.path());
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace example
