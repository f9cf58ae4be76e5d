#pragma once
// The examples' command lines: `--epochs 5`, `--epochs=5`, `--fast`. What is not known is refused; `--help` lists all.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace example {

/// Ask for each option once, then call `done()`, and only then begin to work:
///   Arguments arguments(argc, argv, "Trains a network.");
///   int const epochs = arguments.value("--epochs", 5, "passes over the data");
///   arguments.done();
class Arguments {
 public:
  Arguments(int argc, char** argv, std::string about) : words_(argv + 1, argv + argc), about_(std::move(about)) {}

  bool flag(std::string const& name, std::string const& meaning) {
    describe(name, meaning);
    return std::erase(words_, name) > 0;
  }

  template <class T>
  T value(std::string const& name, T otherwise, std::string const& meaning) {
    std::ostringstream usual;
    usual << otherwise;
    describe(name + " X", meaning + (usual.str().empty() ? "" : " (default " + usual.str() + ")"));
    for (std::size_t i = 0; i < words_.size();) {
      bool const apart = words_[i] == name, joined = words_[i].starts_with(name + "=");
      if (!apart && !joined) {
        ++i;
        continue;
      }
      if (apart && i + 1 == words_.size()) throw std::runtime_error(name + " needs a value: " + meaning);
      otherwise = parsed<T>(name, apart ? words_[i + 1] : words_[i].substr(name.size() + 1));
      auto const at = words_.begin() + static_cast<std::ptrdiff_t>(i);
      words_.erase(at, at + (apart ? 2 : 1));
    }
    return otherwise;
  }

  /// `--help` prints the options and ends the program; a word that nobody asked about is an exception.
  void done() {
    if (std::erase(words_, "--help") + std::erase(words_, "-h") > 0) {
      std::printf("%s\n\n%s", about_.c_str(), options_.c_str());
      std::exit(0);
    }
    if (!words_.empty()) throw std::runtime_error("'" + words_.front() + "' is no option of this program: see --help");
  }

 private:
  void describe(std::string const& name, std::string const& meaning) {
    options_ += "  " + name + std::string(name.size() < 18 ? 18 - name.size() : 1, ' ') + meaning + "\n";
  }

  template <class T>
  static T parsed(std::string const& name, std::string const& text) {
    if constexpr (std::is_same_v<T, std::string>) {
      return text;
    } else {
      T number{};
      std::istringstream stream(text);
      if (!(stream >> number) || !stream.eof() || (std::is_unsigned_v<T> && text.starts_with('-')))
        throw std::runtime_error(name + " " + text + ": a number was expected");
      return number;
    }
  }

  std::vector<std::string> words_;
  std::string about_;
  std::string options_{};
};

/// What main returns when an exception ends it; after a signal it is what shells expect.
///   int main(int argc, char** argv) try { ... } catch (std::exception const& error) { return example::failed(error); }
inline int failed(std::exception const& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", error.what());
  if (auto const* const interrupted = dynamic_cast<fulgurite::Interrupted const*>(&error))
    return interrupted->exit_code();
  return 1;
}

}  // namespace example
