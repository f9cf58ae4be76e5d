#pragma once
// Turns the characters of a text into numbers and back. Characters are Unicode's, the text is UTF-8.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/utf8.hpp>

namespace fulgurite::data {

/// Calls `f(character, offset)` for each character of `text`: `character` is its one to four bytes, `offset` the byte
/// at which it begins. Error [fulgurite.data.utf8] where the text is not UTF-8; it names the byte and `source`, which
/// is what the text is called.
inline void each_character(std::string_view text, std::string_view source, auto&& f) {
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    bytes = utf8::length(text, at);
    if (bytes == 0)
      throw Error("fulgurite.data.utf8",
                  std::string(source) + ": at byte " + std::to_string(at) + " of " + std::to_string(text.size()) +
                      " the text is not UTF-8: convert it (iconv -t UTF-8), or leave that file out");
    f(text.substr(at, bytes), at);
  }
}

/// Maps each character of a text to a number from 0 to size()-1, in the order of the characters' bytes. Any text with
/// the same characters gives the same numbers. `data_state<data::Vocabulary>(file)` restores that of a TextModule from
/// a checkpoint.
class Vocabulary {
 public:
  Vocabulary() = default;

  explicit Vocabulary(std::string_view text, std::string_view source = "the text") {
    each_character(text, source, [&](std::string_view character, std::size_t) {
      auto const at = std::ranges::lower_bound(characters_, character);
      if (at == characters_.end() || *at != character) characters_.emplace(at, character);
    });
  }

  std::size_t size() const { return characters_.size(); }

  std::string characters() const {
    std::string all;
    for (auto const& character : characters_) all += character;
    return all;
  }

  /// The numbers of a text's characters. Error [fulgurite.data.unknown_character] for one that the vocabulary does not
  /// have.
  FULGURITE_BULK std::vector<std::int64_t> encode(std::string_view text) const {
    std::vector<std::int64_t> numbers;
    numbers.reserve(text.size());
    each_character(text, "the text to encode", [&](std::string_view character, std::size_t offset) {
      auto const at = std::ranges::lower_bound(characters_, character);
      if (at == characters_.end() || *at != character)
        throw Error("fulgurite.data.unknown_character",
                    "\"" + std::string(character) + "\" at byte " + std::to_string(offset) + " is not among the " +
                        std::to_string(size()) +
                        " characters of the vocabulary: leave it out, or make the vocabulary of a text that has it");
      numbers.push_back(at - characters_.begin());
    });
    return numbers;
  }

  /// The text of these numbers. Error [fulgurite.data.unknown_number] for one outside 0 to size()-1.
  FULGURITE_BULK std::string decode(std::span<std::int64_t const> numbers) const {
    std::string text;
    for (std::int64_t const number : numbers) {
      if (number < 0 || static_cast<std::size_t>(number) >= size())
        throw Error("fulgurite.data.unknown_number",
                    std::to_string(number) + " stands for no character: the vocabulary has 0 to " +
                        std::to_string(size()) + " - 1; the numbers come from another vocabulary");
      text += characters_[static_cast<std::size_t>(number)];
    }
    return text;
  }

  /// Loading into one that has characters, these have to be the same: another character would stand for a number. Error
  /// [fulgurite.data.text_changed].
  void state(auto& archive) {
    auto all = characters();
    archive("characters", all);
    Vocabulary saved(all, "the saved vocabulary");
    if (size() != 0 && saved.size() != 0 && saved.characters_ != characters_) refuse_change(saved);
    characters_ = std::move(saved.characters_);
  }

 private:
  FULGURITE_COLD void refuse_change(Vocabulary const& saved) const {
    auto const differing = std::ranges::mismatch(characters_, saved.characters_);
    auto const text = [](auto const& of, auto const& at) { return at == of.end() ? "none" : "'" + *at + "'"; };
    throw Error(
        "fulgurite.data.text_changed",
        "the text has another vocabulary (" + std::to_string(size()) +
            " characters) than the one that the checkpoint was trained on (" + std::to_string(saved.size()) +
            "): character " + std::to_string(differing.in1 - characters_.begin()) + " is " +
            text(characters_, differing.in1) + " here and " + text(saved.characters_, differing.in2) +
            " in the checkpoint; give the same text, or encode yours by data_state<data::Vocabulary>(checkpoint)");
  }

  std::vector<std::string> characters_;  // sorted; a few hundred at most, each within the string itself
};

}  // namespace fulgurite::data
