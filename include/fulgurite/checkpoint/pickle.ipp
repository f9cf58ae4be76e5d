#pragma once
// The bodies of checkpoint/pickle.hpp.

#include <bit>
#include <cstring>

#include <fulgurite/checkpoint/pickle.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::pickle {

FULGURITE_BODY Value const& Values::operator[](Ref ref) const { return all[static_cast<std::size_t>(ref)]; }

FULGURITE_BODY Value& Values::operator[](Ref ref) { return all[static_cast<std::size_t>(ref)]; }

FULGURITE_BULK_BODY Ref const* Values::find(Dict const& dict, std::string_view key) const {
  Ref const* found = nullptr;
  for (auto const& [name, value] : dict.items)
    if (auto const* text = get<std::string_view>(name); text != nullptr && *text == key) found = &value;
  return found;
}

/// The machine on which a pickle's opcodes work.
class Reader {
 public:
  Reader(std::string_view bytes, std::string source, Limits const& limits)
      : bytes_(bytes), source_(std::move(source)), limits_(limits) {}

  Values read() {
    if (bytes_.size() > limits_.bytes) fail("the pickle is longer than " + std::to_string(limits_.bytes) + " bytes");
    if (take(2) != "\x80\x02")
      fail("a pickle of protocol 2 expected: save it by torch.save(state_dict, file), without pickle_protocol");
    while (step()) {}
    if (!marks_.empty() || stack_.size() != 1) fail("a pickle ends with one value");
    if (at_ != bytes_.size()) fail("nothing more expected");
    values_.root = stack_.back();
    return std::move(values_);
  }

 private:
  // The state between two opcodes: bytes, a stack with marks, a memo. Missing or surplus data is an Error that gives
  // the byte.
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
  std::string_view take_line() {
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
  void push(Value value) {
    if (values_.all.size() == limits_.values) fail("more values than " + std::to_string(limits_.values));
    values_.all.push_back(std::move(value));
    push(static_cast<Ref>(values_.all.size() - 1));
  }
  /// The number of values that may be taken from the stack: all since the last mark.
  std::size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  std::vector<Ref> pop(std::size_t count) {
    if (available() < count) fail("a value is missing");
    std::vector<Ref> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  Ref pop() { return pop(1).front(); }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    auto items = pop(available());
    marks_.pop_back();
    return items;
  }
  template <class T>
  T const& expect(Ref ref, char const* kind) const {
    auto const* const value = values_.get<T>(ref);
    if (value == nullptr) fail(std::string(kind) + " expected");
    return *value;
  }
  /// The value on top, which must be of that type.
  template <class T>
  T& top(char const* kind) {
    if (available() == 0) fail("a value is missing");
    auto* const value = std::get_if<T>(&values_[stack_.back()]);
    if (value == nullptr) fail(std::string(kind) + " expected");
    return *value;
  }
  void mark() {
    if (marks_.size() == limits_.depth) fail("nested more than " + std::to_string(limits_.depth) + " deep");
    marks_.push_back(stack_.size());
  }

  void remember(std::size_t index) {
    if (available() == 0) fail("a value is missing");
    if (index > memo_.size()) fail("a value is remembered out of order");
    if (index == memo_.size()) memo_.push_back(stack_.back());
    else memo_[index] = stack_.back();
  }
  void recall(std::size_t index) {
    if (index >= memo_.size()) fail("a value is recalled that was not remembered");
    push(memo_[index]);
  }

  // The opcodes, by their names in Python's pickletools.
  bool step() {
    auto const code = take(1).front();
    switch (code) {
    case '.': return false;                                                                 // STOP
    case 'N': push(Ref::none); break;                                                       // NONE
    case '\x88': push(Ref::yes); break;                                                     // NEWTRUE
    case '\x89': push(Ref::no); break;                                                      // NEWFALSE
    case 'J': push(Value(std::int64_t{take_number<std::int32_t>()})); break;                // BININT
    case 'K': push(Value(std::int64_t{take_number<std::uint8_t>()})); break;                // BININT1
    case 'M': push(Value(std::int64_t{take_number<std::uint16_t>()})); break;               // BININT2
    case '\x8a': push(long_number(take(take_number<std::uint8_t>()))); break;               // LONG1
    case 'G': push(Value(real(take_number<std::uint64_t>()))); break;                       // BINFLOAT
    case 'X': push(Value(take(text_length()))); break;                                      // BINUNICODE
    case 'c': push(global()); break;                                                        // GLOBAL
    case ')': push(Value(Tuple{})); break;                                                  // EMPTY_TUPLE
    case ']': push(Value(List{})); break;                                                   // EMPTY_LIST
    case '}': push(Value(Dict{})); break;                                                   // EMPTY_DICT
    case '\x85': push(Value(Tuple{pop(1)})); break;                                         // TUPLE1
    case '\x86': push(Value(Tuple{pop(2)})); break;                                         // TUPLE2
    case '\x87': push(Value(Tuple{pop(3)})); break;                                         // TUPLE3
    case 't': push(Value(Tuple{pop_to_mark()})); break;                                     // TUPLE
    case '(': mark(); break;                                                                // MARK
    case 'a': append(pop(1)); break;                                                        // APPEND
    case 'e': append(pop_to_mark()); break;                                                 // APPENDS
    case 's': set_items(pop(2)); break;                                                     // SETITEM
    case 'u': set_items(pop_to_mark()); break;                                              // SETITEMS
    case 'q': remember(take_number<std::uint8_t>()); break;                                 // BINPUT
    case 'r': remember(take_number<std::uint32_t>()); break;                                // LONG_BINPUT
    case 'h': recall(take_number<std::uint8_t>()); break;                                   // BINGET
    case 'j': recall(take_number<std::uint32_t>()); break;                                  // LONG_BINGET
    case 'Q': push(storage(expect<Tuple>(pop(), "the tuple of a storage"))); break;         // BINPERSID
    case 'R': call(); break;                                                                // REDUCE
    case 'b': pop(), top<Dict>("an object that takes attributes (an OrderedDict)"); break;  // BUILD: _metadata
    default: refuse_opcode(static_cast<unsigned char>(code));
    }
    return true;
  }
  [[noreturn]] void refuse_opcode(unsigned code) {
    constexpr char digits[] = "0123456789abcdef";
    --at_;
    fail(std::string("the opcode 0x") + digits[code >> 4] + digits[code & 15] +
         " is none that a state dict needs: save model.state_dict() alone");
  }
  std::size_t text_length() {
    std::size_t const length = take_number<std::uint32_t>();
    if (length > limits_.text) fail("a text of more than " + std::to_string(limits_.text) + " bytes");
    return length;
  }
  static double real(std::uint64_t big_endian) {
    std::uint64_t bits = 0;
    for (int i = 0; i != 8; ++i, big_endian >>= 8) bits = bits << 8 | (big_endian & 0xFF);
    return std::bit_cast<double>(bits);
  }
  /// An integer of any length; one of more than 64 bits becomes Plain.
  static Value long_number(std::string_view bytes) {
    if (bytes.size() > 8) return Plain{};
    std::uint64_t bits = !bytes.empty() && (bytes.back() & '\x80') != 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return static_cast<std::int64_t>(bits);
  }
  void append(std::vector<Ref> const& items) {
    auto& list = top<List>("a list").items;
    list.insert(list.end(), items.begin(), items.end());
  }
  void set_items(std::vector<Ref> const& items) {
    auto& dict = top<Dict>("a dict").items;
    if (items.size() % 2 != 0) fail("a key without a value");
    for (std::size_t i = 0; i != items.size(); i += 2) dict.emplace_back(items[i], items[i + 1]);
  }

  // Names, and the results of calling them.
  Value global() {
    auto const from = at_;
    auto const module = take_line(), name = take_line();
    auto full = std::string(module) + "." + std::string(name);
    auto const* const entry = known(full);
    if (entry == nullptr) {
      at_ = from;
      for (char& c : full)
        if (c < ' ' || c > '~') c = '?';
      fail("the pickle names '" + full +
           "', which is neither a tensor nor plain data: save model.state_dict() alone, or as safetensors");
    }
    return Global{entry->name};
  }
  Value storage(Tuple const& id) const {
    if (id.items.size() != 5 || expect<std::string_view>(id.items[0], "the word 'storage'") != "storage")
      fail("a persistent object that is no storage");
    auto const kind = expect<Global>(id.items[1], "the type of a storage").name;
    auto const count = expect<std::int64_t>(id.items[4], "the size of a storage");
    if (known(kind)->meaning != Meaning::storage || count < 0) fail("the type and the size of a storage expected");
    return Storage{known(kind)->dtype, kind, expect<std::string_view>(id.items[2], "the name of a storage"),
                   static_cast<std::uint64_t>(count)};
  }
  void call() {
    auto const& arguments = expect<Tuple>(pop(), "a tuple of arguments").items;  // valid until the next push
    auto const name = expect<Global>(pop(), "a name that is called").name;
    auto const needs = [&](bool fine) {
      if (!fine) fail("'" + std::string(name) + "' is called with arguments that it does not take");
    };
    switch (known(name)->meaning) {
    case Meaning::ordered_dict: needs(arguments.empty()); return push(Value(Dict{}));
    case Meaning::counter:
      needs(arguments.size() == 1 && values_.get<Dict>(arguments[0]) != nullptr);
      return push(arguments[0]);
    case Meaning::parameter:
      needs(arguments.size() == 3 && values_.get<Tensor>(arguments[0]) != nullptr);
      return push(arguments[0]);
    case Meaning::tensor: {
      // The arguments: storage, offset, shape, strides, requires_grad, hooks, and optionally flags.
      needs(arguments.size() == 6 || arguments.size() == 7);
      needs(values_.get<Storage>(arguments[0]) != nullptr);
      if (arguments.size() == 7 && !expect<Dict>(arguments[6], "the flags of a tensor").items.empty())
        fail("a tensor with flags (conjugated or negated): save it by .resolve_conj().resolve_neg()");
      for (auto const i : {std::size_t{2}, std::size_t{3}}) needs(values_.get<Tuple>(arguments[i]) != nullptr);
      return push(Value(Tensor{arguments[0], expect<std::int64_t>(arguments[1], "the offset of a tensor"), arguments[2],
                               arguments[3]}));
    }
    case Meaning::plain: return push(Value(Plain{}));
    case Meaning::mentioned:
    case Meaning::storage: needs(false);
    }
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

FULGURITE_BODY Values read(std::string_view bytes, std::string source, Limits const& limits) {
  return Reader(bytes, std::move(source), limits).read();
}

}  // namespace fulgurite::pickle
