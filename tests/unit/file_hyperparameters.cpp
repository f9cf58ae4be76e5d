// Settings come back from a file as they went there, all or none.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/state.hpp>

#include "checkpoint_folder.hpp"

using namespace fulgurite;

namespace {

enum class Kind : std::uint8_t { small, large };
struct Settings {
  static constexpr int version = 3;
  double lr = 1e-3;
  float dropout = 0;
  int layers = 4;
  std::uint64_t seed = 0;
  bool bias = true;
  Kind kind = Kind::small;
  std::string optimizer = "sgd";
  void hyperparameters(auto& list) const {
    list("lr", lr)("dropout", dropout)("layers", layers)("seed", seed)("bias", bias)("kind", kind)(
        "optimizer", optimizer)("act", "relu")("version", version);
  }
};
struct Net {
  Settings hparams{};
};

/// A file with that text.
std::filesystem::path file_of(Folder const& folder, std::string const& text) {
  auto file = folder / "a.safetensors";
  write_safetensors(file, {{"hyperparameters", text}}, [](auto&&) {});
  return file;
}
/// What is said of a text; it has all names, and those of `instead` are otherwise.
std::string said_of(std::string const& text) {
  Folder const folder;
  return error_of([&] { hyperparameters<Settings>(file_of(folder, text)); });
}
constexpr char const* whole = R"({"lr":0.25,"dropout":0.5,"layers":-7,"seed":-1,"bias":false,"kind":1,)"
                              R"("optimizer":"adam \"w\"","act":"relu","version":3,"batch_size":32})";
std::string with(std::string const& from, std::string const& to) {
  std::string text = whole;
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("hyper-parameters of a file: each type comes back, through a struct or the hparams of a model") {
  Folder const folder;
  auto const file = file_of(folder, whole);
  auto const check = [](Settings const& got) {
    CHECK(got.lr == 0.25);
    CHECK(got.dropout == 0.5F);
    CHECK(got.layers == -7);
    CHECK(got.seed == std::numeric_limits<std::uint64_t>::max());
    CHECK_FALSE(got.bias);
    CHECK(got.kind == Kind::large);
    CHECK(got.optimizer == "adam \"w\"");
  };
  check(hyperparameters<Settings>(file));
  check(hyperparameters<Net>(file).hparams);
}

namespace {

struct Maybe {
  std::optional<double> clip = {}, decay = 0.5;
  std::optional<std::vector<int>> widths = {};
  void hyperparameters(auto& list) const { list("clip", clip)("decay", decay)("widths", widths); }
};

}  // namespace

TEST_CASE("hyper-parameters of a file: an empty optional is not in it, and comes back empty") {
  Folder const folder;
  Maybe given{.clip = 2, .decay = {}, .widths = std::vector{3, 4}};
  HyperparameterList list;
  list.of(given);
  REQUIRE(list.all().size() == 2);
  CHECK(list.all()[0] == Hyperparameter("clip", 2.0));
  CHECK(list.all()[1] == Hyperparameter("widths", HyperparameterValues{std::int64_t{3}, std::int64_t{4}}));
  auto const got = hyperparameters<Maybe>(file_of(folder, R"({"clip":2.5,"widths":[3,4]})"));
  CHECK(got.clip == 2.5);
  CHECK_FALSE(got.decay);
  CHECK(got.widths == std::vector{3, 4});
  auto const error = error_of([&] { hyperparameters<Maybe>(file_of(folder, R"({"clip":"much"})")); });
  CHECK(error.find("'clip' is \"much\", and a double is asked for") != std::string::npos);
}

TEST_CASE("hyper-parameters of a file: what is missing or of another type is said, all of it at once") {
  auto const error =
      said_of(R"({"lr":1,"dropout":0.1,"layers":2.5,"seed":0,"bias":1,"kind":256,"act":"gelu","version":4})");
  CHECK(error.starts_with("[fulgurite.checkpoint.hyperparameters] "));
  for (auto const* part :
       {"'lr' is 1, and a double", "'dropout' is 0.1, and a float", "'layers' is 2.5, and an integer",
        "'bias' is 1, and a truth value", "'kind' is 256", "'optimizer' is not there",
        "'act' is \"gelu\", and here it cannot be set", "'version' is 4, and here it cannot be set"}) {
    CAPTURE(part);
    CHECK(error.find(part) != std::string::npos);
  }
  CHECK(error.find("'seed'") == std::string::npos);
}

TEST_CASE("hyper-parameters of a file: a number that does not fit its member is said") {
  CHECK(said_of(with("-7", "2147483648")).find("'layers' is 2147483648, and an integer of 4 bytes") !=
        std::string::npos);
  CHECK(said_of(with("\"kind\":1", "\"kind\":-1")).find("'kind' is -1") != std::string::npos);
  CHECK(said_of(with("0.25", "null")).find("'lr' is null") != std::string::npos);
  CHECK(said_of(with("0.25", R"({"$bits":"7ff8000000000000"})")).empty());
}

TEST_CASE("hyper-parameters of a file: a file without any, and one with a text that is none") {
  Folder const folder;
  write_safetensors(folder / "none.safetensors", {}, [](auto&&) {});
  CHECK(error_of([&] {
          hyperparameters<Settings>(folder / "none.safetensors");
        }).starts_with("[fulgurite.checkpoint.no_hyperparameters]"));
  CHECK(said_of("{\"lr\":").starts_with("[fulgurite.checkpoint.state_text]"));
  CHECK(said_of("[1]").starts_with("[fulgurite.checkpoint.hyperparameters]"));
}
