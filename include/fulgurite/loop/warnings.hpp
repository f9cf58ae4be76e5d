#pragma once
// Part of a run's state: what was said. The one channel for warnings of the library, of callbacks and of models.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/tell.hpp>

namespace fulgurite::loop {

/// How a function that is no template warns through a run: State's `warn`, lent.
using Warn = FunctionRef<void(std::string_view identifier, std::string_view sentence)>;

/// What may be meant and mostly is not, each with its identifier in brackets in front. `aloud`: on stderr, too.
class Warnings {
 public:
  /// Said once for each identifier.
  void once(std::string_view identifier, std::string_view sentence, bool aloud) {
    for (auto const& said : said_)
      if (is_of(said, identifier)) return;
    say(identifier, sentence, aloud);
  }
  /// Said once for each sentence.
  void each(std::string_view identifier, std::string_view sentence, bool aloud) {
    for (auto const& said : said_)
      if (is_of(said, identifier) && std::string_view(said).substr(identifier.size() + 3) == sentence) return;
    say(identifier, sentence, aloud);
  }

  std::vector<std::string> const& all() const { return said_; }

 private:
  static bool is_of(std::string_view said, std::string_view identifier) {
    return said.substr(1).starts_with(identifier) && said.substr(identifier.size() + 1).starts_with(']');
  }
  void say(std::string_view identifier, std::string_view sentence, bool aloud) {
    auto& said = said_.emplace_back("[");
    said.append(identifier).append("] ").append(sentence);
    if (aloud) fulgurite::tell(stderr, "warning: " + said + "\n");
  }

  std::vector<std::string> said_{};
};

}  // namespace fulgurite::loop
