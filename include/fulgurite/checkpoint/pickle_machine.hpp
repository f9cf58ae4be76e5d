#pragma once
// What the opcodes of a pickle work on: its bytes, a stack with marks, and a memo, all of them within limits.

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/pickle_values.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::pickle {

/// How much of a pickle is taken. A state dict of 100,000 tensors stays far below.
struct Limits {
  std::size_t bytes = std::size_t{1} << 26;
  std::size_t values = std::size_t{1} << 22;
  std::size_t stack = std::size_t{1} << 20;
  std::size_t depth = 1000;     ///< containers that are open at once
  std::size_t name = 200;       ///< bytes of a module's or a function's name
  std::size_t text = 1U << 20;  ///< bytes of a text
};

/// The state of a reader between two opcodes. Whatever is missing, or too much, is an Error with the byte where it is.
class Machine {
 protected:
  Machine(std::string_view bytes, std::string source, Limits limits)
      : bytes_(bytes), source_(std::move(source)), limits_(limits) {}

  [[noreturn]] void fail(std::string const& why) const {
    throw Error("fulgurite.checkpoint.pt_pickle", source_ + ", byte " + std::to_string(at_) + ": " + why);
  }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) fail("the pickle ends inside a value");
    return bytes_.substr(std::exchange(at_, at_ + count), count);
  }
  template <class I>
  I take_number() {
    I value{};
    std::memcpy(&value, take(sizeof(I)).data(), sizeof(I));  // protocol 2 is little endian
    return value;
  }
  FULGURITE_BULK std::string_view take_line() {
    auto const line = bytes_.substr(at_, limits_.name + 1);
    auto const end = line.find('\n');
    if (end == line.npos) fail("a name of at most " + std::to_string(limits_.name) + " bytes expected");
    at_ += end + 1;
    return line.substr(0, end);
  }

  void push(Ref ref) {
    if (stack_.size() == limits_.stack) fail("more values at once than " + std::to_string(limits_.stack));
    stack_.push_back(ref);
  }
  FULGURITE_BULK void push(Value value) {
    if (values_.all.size() == limits_.values) fail("more values than " + std::to_string(limits_.values));
    values_.all.push_back(std::move(value));
    push(static_cast<Ref>(values_.all.size() - 1));
  }
  /// What may be taken from the stack: all since the last mark.
  std::size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Ref pop() {
    if (available() == 0) fail("a value is missing");
    auto const ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  FULGURITE_BULK std::vector<Ref> pop(std::size_t count) {
    if (available() < count) fail("a value is missing");
    std::vector<Ref> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    auto items = pop(available());
    marks_.pop_back();
    return items;
  }
  /// The value on top, which has to be of that kind.
  template <class T>
  T& top(char const* kind) {
    if (available() == 0) fail("a value is missing");
    auto* const value = std::get_if<T>(&values_[stack_.back()]);
    if (value == nullptr) fail(std::string(kind) + " expected");
    return *value;
  }
  template <class T>
  T const& expect(Ref ref, char const* kind) const {
    auto const* const value = values_.get<T>(ref);
    if (value == nullptr) fail(std::string(kind) + " expected");
    return *value;
  }
  void mark() {
    if (marks_.size() == limits_.depth) fail("nested more than " + std::to_string(limits_.depth) + " deep");
    marks_.push_back(stack_.size());
  }

  FULGURITE_BULK void remember(std::size_t index) {
    if (available() == 0) fail("a value is missing");
    if (index > memo_.size()) fail("a value is remembered out of order");
    if (index == memo_.size()) memo_.push_back(stack_.back());
    else memo_[index] = stack_.back();
  }
  void recall(std::size_t index) {
    if (index >= memo_.size()) fail("a value is recalled that was not remembered");
    push(memo_[index]);
  }

  std::string_view bytes_;
  std::string source_;
  Limits limits_;
  std::size_t at_ = 0;
  Values values_;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Ref> memo_;
};

}  // namespace fulgurite::pickle
