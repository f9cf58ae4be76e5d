// What `tools/dev report` runs: a page about the runs in the folders that are named.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fulgurite/report/html.hpp>

int main(int argc, char** argv) {
  std::filesystem::path file = "report.html";
  std::vector<std::filesystem::path> folders;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--out" && i + 1 < argc) file = argv[++i];
    else folders.emplace_back(argv[i]);
  }
  if (folders.empty()) {
    std::fprintf(stderr, "report FOLDER... [--out FILE]: folders of runs, such as lightning_logs/version_0\n");
    return 2;
  }
  try {
    fulgurite::report::write_html(file, folders);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::printf("%s\n", file.c_str());
}
