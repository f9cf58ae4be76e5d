#pragma once
// The bodies of core/text.hpp.

#include <fulgurite/core/text.hpp>

namespace fulgurite {

FULGURITE_BODY void print_lines(std::FILE* stream, std::string_view lines) {
  if (auto const above = writes_above.load()) above(stream, lines);
  else std::fwrite(lines.data(), 1, lines.size(), stream);
}

FULGURITE_BODY void append_item(std::string& all, std::string_view item, std::string_view between) {
  all.append(all.empty() ? std::string_view() : between).append(item);
}

FULGURITE_BULK_BODY std::string exact_number(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

FULGURITE_BODY std::string time_text(Seconds time) {
  auto const whole = static_cast<long long>(time.count());
  std::string text;
  for (long long const part : {whole / 86400, whole / 3600 % 24, whole / 60 % 60, whole % 60}) {
    if (!text.empty()) text += ':';
    if (part < 10) text += '0';
    text += std::to_string(part);
  }
  return text;
}

}  // namespace fulgurite

namespace fulgurite::json {

FULGURITE_BULK_BODY std::string quoted(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto const code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (code < 0x20) ((out += "\\u00") += digits[code >> 4]) += digits[code & 15];
    else out += c;
  }
  return out + '"';
}

FULGURITE_BODY Reader::Reader(std::string_view text, std::string identifier, std::string source,
                              std::uint64_t first_byte)
    : text_(text), identifier_(std::move(identifier)), source_(std::move(source)), first_byte_(first_byte) {}

FULGURITE_BODY void Reader::fail(std::string const& why) const {
  throw Error(identifier_, source_ + ", byte " + std::to_string(first_byte_ + at_) + ": " + why);
}

FULGURITE_BULK_BODY char Reader::peek() {
  while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

FULGURITE_BODY bool Reader::accept(char c) { return peek() == c && at_ < text_.size() ? (++at_, true) : false; }

FULGURITE_BODY void Reader::expect(char c) {
  if (!accept(c)) fail(std::string("'") + c + "' expected" + (at_ < text_.size() ? "" : ", but the text ends"));
}

FULGURITE_BODY bool Reader::accept_word(std::string_view word) {
  peek();
  if (text_.substr(at_, word.size()) != word) return false;
  at_ += word.size();
  return true;
}

FULGURITE_BODY void Reader::expect_end() {
  peek();
  if (at_ != text_.size()) fail("nothing more expected");
}

FULGURITE_BULK_BODY std::string Reader::string() {
  expect('"');
  std::string out;
  while (true) {
    if (at_ == text_.size()) fail("the text ends inside a string");
    char const c = text_[at_++];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character inside a string");
    if (c == '\\') escape(out);
    else out += c;
  }
  if (!utf8::is_valid(out)) fail("a string that is not UTF-8");
  return out;
}

FULGURITE_BULK_BODY std::string_view Reader::number() {
  peek();
  auto const begin = at_;
  auto const digits = [&] {
    auto const from = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == from) fail("a digit expected");
  };
  auto const take = [&](char c) { return at_ < text_.size() && text_[at_] == c ? (++at_, true) : false; };
  take('-');
  if (!take('0')) digits();
  if (take('.')) digits();
  if (take('e') || take('E')) {
    if (!take('-')) take('+');
    digits();
  }
  return text_.substr(begin, at_ - begin);
}

FULGURITE_BODY void Reader::enter(char bracket) {
  expect(bracket);
  if (++depth_ > 64) fail("nested too deeply");
}

FULGURITE_BULK_BODY std::uint32_t Reader::four_digits() {
  std::uint32_t code = 0;
  auto const text = text_.substr(at_, 4);
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
  if (text.size() != 4 || error != std::errc{} || end != text.data() + 4) fail("four hexadecimal digits expected");
  at_ += 4;
  return code;
}

FULGURITE_BULK_BODY void Reader::escape(std::string& out) {
  char const c = at_ < text_.size() ? text_[at_++] : '\0';
  constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  if (auto const i = names.find(c); c != '\0' && i != std::string_view::npos) {
    out += meanings[i];
    return;
  }
  if (c != 'u') fail("an unknown escape in a string");
  auto code = four_digits();
  if (code >= 0xD800 && code < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair");
    at_ += 2;
    auto const low = four_digits();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    fail("half of a surrogate pair");
  }
  auto const byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  auto const tail = [&](int shift) { byte(0x80U | (code >> shift & 0x3FU)); };
  if (code < 0x80) byte(code);
  else if (code < 0x800) byte(0xC0U | code >> 6), tail(0);
  else if (code < 0x10000) byte(0xE0U | code >> 12), tail(6), tail(0);
  else byte(0xF0U | code >> 18), tail(12), tail(6), tail(0);
}

}  // namespace fulgurite::json
