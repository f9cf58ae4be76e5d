#pragma once
// What the driver tells a program of this suite.

#include <map>
#include <string>

/// --name value, each at most once.
struct Words {
  std::map<std::string, std::string> all;
  Words(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) all[argv[i]] = argv[i + 1];
  }
  std::string text(std::string const& name, std::string const& otherwise = {}) const {
    auto const found = all.find(name);
    return found == all.end() ? otherwise : found->second;
  }
  long number(std::string const& name, long otherwise) const {
    auto const found = text(name);
    return found.empty() ? otherwise : std::stol(found);
  }
};
