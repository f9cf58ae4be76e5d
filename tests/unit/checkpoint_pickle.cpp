#include <fulgurite/checkpoint/pickle.hpp>

#include "checkpoint_folder.hpp"
#include "checkpoint_pt_bytes.hpp"

using namespace fulgurite;

namespace {
std::string said(std::string const& pickle, pickle::Limits limits = {}) {
  auto const text = error_of([&] { pickle::read(pickle, "x", limits); });
  CHECK((text.empty() || text.starts_with("[fulgurite.checkpoint.pt_pickle] x, byte ")));
  return text;
}
bool refused(std::string const& pickle, std::string_view words, pickle::Limits limits = {}) {
  auto const text = said(pickle, limits);
  INFO(text);
  CHECK(text.find(words) != std::string::npos);
  return text.find(words) != std::string::npos;
}
}  // namespace

TEST_CASE("pickle: plain data") {
  std::string const bytes = proto + "}(" + text("none") + "N" + text("yes") + "\x88" + text("int") + integer(-5) +
                            text("long") + integer(-(1L << 40)) + text("byte") + "K\xFF" + text("short") + "M\xFF\xFF" +
                            text("real") + std::string("G\x3F\xF8\0\0\0\0\0\0", 9) + text("list") + "]q" +
                            std::string(1, '\0') + "(NNe\x88" + "a" + text("again") + "h" + std::string(1, '\0') +
                            text("huge") + "\x8a\x09" + std::string(9, '\1') + "u.";
  auto const values = pickle::read(bytes, "x");
  auto const& dict = *values.get<pickle::Dict>(values.root);
  auto const at = [&](char const* name) -> pickle::Value const& { return values[*values.find(dict, name)]; };
  CHECK(std::holds_alternative<pickle::None>(at("none")));
  CHECK(std::get<bool>(at("yes")));
  CHECK(std::get<std::int64_t>(at("int")) == -5);
  CHECK(std::get<std::int64_t>(at("long")) == -(1L << 40));
  CHECK(std::get<std::int64_t>(at("byte")) == 255);
  CHECK(std::get<std::int64_t>(at("short")) == 65535);
  CHECK(std::get<double>(at("real")) == 1.5);
  CHECK(std::get<pickle::List>(at("list")).items.size() == 3);
  CHECK(values.find(dict, "list")[0] == values.find(dict, "again")[0]);
  CHECK(std::holds_alternative<pickle::Plain>(at("huge")));
  CHECK(values.find(dict, "nothing") == nullptr);
}

TEST_CASE("pickle: a tensor, a parameter, attributes of an OrderedDict") {
  auto const one = tensor({.shape = {2}, .strides = {1}, .offset = 3, .count = 5});
  auto const bytes =
      proto + dict({{"w", one}, {"p", "ctorch._utils\n_rebuild_parameter\n(" + one + "\x88" + ordered_dict + "tR"}}) +
      "}(" + text("_metadata") + ordered_dict + "ub.";
  auto const values = pickle::read(bytes, "x");
  auto const& items = values.get<pickle::Dict>(values.root)->items;
  REQUIRE(items.size() == 2);
  for (auto const& [name, value] : items) {
    auto const* read = values.get<pickle::Tensor>(value);
    REQUIRE(read != nullptr);
    CHECK(read->offset == 3);
    auto const& storage = *values.get<pickle::Storage>(read->storage);
    CHECK(storage.dtype == "F32");
    CHECK(storage.key == "0");
    CHECK(storage.count == 5);
  }
}

TEST_CASE("pickle: names that are no tensors or plain data are refused, and nothing is called") {
  for (auto const* name : {"os\nsystem", "builtins\neval", "__builtin__\nexec", "subprocess\nPopen", "posix\nsystem",
                           "torch.jit._pickle\nrestore_type_tag", "torch._utils\n_rebuild_tensor_v3",
                           "numpy.core.multiarray\n_reconstruct", "torch\nload", "collections\nOrderedDict.x"}) {
    std::string shown = name;
    shown.replace(shown.find('\n'), 1, ".");
    CHECK(refused(proto + "c" + name + "\n(" + text("true") + "tR.", "the pickle names '" + shown + "', which is"));
  }
  CHECK(refused(proto + "cos\x1b\nsystem\n.", "'os?.system'"));
  CHECK(refused(proto + "ctorch\nFloatStorage\n)R.", "is called with arguments that it does not take"));
  CHECK(refused(proto + "ctorch._utils\n_rebuild_tensor_v2\n)R.", "arguments that it does not take"));
  CHECK(refused(proto + "ctorch._utils\n_rebuild_tensor_v2\n(NK\1))NNtR.", "arguments that it does not take"));
  CHECK(refused(proto + "ctorch._utils\n_rebuild_parameter\n(NNNtR.", "arguments that it does not take"));
  CHECK(refused(proto + "N)R.", "a name that is called expected"));
  CHECK(refused(proto + ")Q.", "no storage"));
  CHECK(refused(proto + "NQ.", "the tuple of a storage expected"));
}

TEST_CASE("pickle: opcodes that state dicts do not need are refused") {
  // INST, OBJ, NEWOBJ, EXT1, POP, DUP, LONG, INT, UNICODE, PERSID, STACK_GLOBAL, FRAME, MEMOIZE, BINBYTES
  for (auto const code : std::string("io\x81\x82"
                                     "02LIVP\x93\x95\x94"
                                     "C"))
    CHECK(refused(proto + "N" + code + std::string(9, '\0'), "is none that a state dict needs"));
  CHECK(refused(std::string("\x80\x04N.", 4), "a pickle of protocol 2 expected"));
}

TEST_CASE("pickle: a stack that does not fit is refused") {
  for (auto const& [bytes, words] :
       std::vector<std::pair<std::string, char const*>>{{".", "ends with one value"},
                                                        {"NN.", "ends with one value"},
                                                        {"(N.", "ends with one value"},
                                                        {"N.N", "nothing more expected"},
                                                        {"N", "the pickle ends inside"},
                                                        {"\x85.", "a value is missing"},
                                                        {"N(\x85.", "a value is missing"},
                                                        {"Nt.", "a mark is missing"},
                                                        {"NNs.", "a value is missing"},
                                                        {"NNNs.", "a dict expected"},
                                                        {"}(Nu.", "a key without a value"},
                                                        {"NNa.", "a list expected"},
                                                        {"N(Ne.", "a list expected"},
                                                        {"q", "the pickle ends inside"},
                                                        {std::string("q\0", 2), "a value is missing"},
                                                        {"Nq\1.", "remembered out of order"},
                                                        {"h\1.", "was not remembered"},
                                                        {"Nr\xFF\xFF\xFF\xFF.", "remembered out of order"},
                                                        {"X\xFF\xFF\xFF\xFF", "a text of more than 1048576 bytes"},
                                                        {"X\xFF\0\0\0", "the pickle ends"},
                                                        {"N}b.", "an object that takes attributes"},
                                                        {"b.", "a value is missing"},
                                                        {"c" + std::string(300, 'a'), "a name of at most 200 bytes"}})
    CHECK(refused(proto + bytes, words));
}

TEST_CASE("pickle: depth, values, stack and length are limited") {
  CHECK(refused(proto + std::string(1001, '('), "nested more than 1000 deep"));
  CHECK(said(proto + "N" + std::string(100'000, '\x85') + ".").empty());  // nested, and no recursion anywhere
  CHECK(refused(proto + std::string(20, ')'), "more values than 10", {.values = 10}));
  CHECK(refused(proto + std::string(20, 'N'), "more values at once than 10", {.stack = 10}));
  CHECK(refused(proto + std::string(20, 'N'), "longer than 10 bytes", {.bytes = 10}));
  CHECK(said(proto + "]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a.").empty());  // contains itself
}

TEST_CASE("pickle: one that ends early is refused wherever it ends") {
  auto const bytes = proto + dict({{"w", tensor({.shape = {2}, .strides = {1}, .count = 2})}}) + ".";
  CHECK(said(bytes).empty());
  for (std::size_t end = 0; end != bytes.size(); ++end) CHECK_FALSE(said(bytes.substr(0, end)).empty());
}
