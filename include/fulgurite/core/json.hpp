#pragma once
// A strict reader of JSON that reads one piece at a time and reports where it failed; used for file headers and saved
// state.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/core/body.hpp>

namespace fulgurite::json {

/// A string as JSON, in quotes. `text` must be valid UTF-8.
std::string quoted(std::string_view text);

/// Reads values from a text one after the other. Every failure is an Error with `identifier`, which names `source` and
/// the byte in it.
class Reader {
 public:
  Reader(std::string_view text, std::string identifier, std::string source, std::uint64_t first_byte = 0);

  [[noreturn]] void fail(std::string const& why) const;

  /// Skips white space and returns the next character without consuming it; 0 at the end.
  char peek();
  bool accept(char c);
  void expect(char c);
  bool accept_word(std::string_view word);
  void expect_end();

  /// Calls element() at each element of an array; it must read that element.
  template <class F>
  void array(F&& element) {
    enter('[');
    if (!accept(']')) {
      do element();
      while (accept(','));
      expect(']');
    }
    --depth_;
  }
  /// Calls member(key) at each member of an object; it must read the value. Names may repeat: the caller decides if
  /// that is an error.
  template <class F>
  void object(F&& member) {
    enter('{');
    if (!accept('}')) {
      do {
        auto key = string();
        expect(':');
        member(std::move(key));
      } while (accept(','));
      expect('}');
    }
    --depth_;
  }

  std::string string();

  /// The characters of a number in JSON's grammar: no leading zeros, no plus sign, digits on both sides of the point.
  std::string_view number();

  /// Reads an integer without point or exponent that fits into `I`.
  template <class I>
  I integer() {
    auto const text = number();
    I value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      fail("'" + std::string(text) + "' is not an integer in range");
    return value;
  }

 private:
  void enter(char bracket);

  std::uint32_t four_digits();

  void escape(std::string& out);

  std::string_view text_;
  std::string identifier_;
  std::string source_;
  std::uint64_t first_byte_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace fulgurite::json

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/json.ipp>
#endif
