#pragma once
// What a piece of code says on stderr.

#include <unistd.h>

#include <cstdio>
#include <string>

// In a namespace, since other tests of the same program may use the same words.
namespace probe {

template <class F>
std::string said(F&& body) {
  std::FILE* const file = std::tmpfile();
  std::fflush(stderr);
  int const before = ::dup(2);
  ::dup2(::fileno(file), 2);
  auto const restore = [&] {
    std::fflush(stderr);
    ::dup2(before, 2);
    ::close(before);
  };
  try {
    body();
  } catch (...) {
    restore();
    std::fclose(file);
    throw;
  }
  restore();
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace probe
using namespace probe;
