#include <utility>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>
#include <fulgurite/loop/dispatch.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

namespace {
enum class Kind : std::uint8_t { small, large };
struct Settings {
  double lr = 1e-5;
  int layers = 4;
  bool bias = true;
  float dropout = 0.5F;
  Kind kind = Kind::large;
  std::string optimizer = "adam";
  void hyperparameters(auto& list) const {
    list("lr", lr)("layers", layers)("bias", bias)("dropout", dropout)("kind", kind)("optimizer", optimizer)("act",
                                                                                                             "relu");
  }
};
struct Net : Scripted {
  Settings hparams{};
};
struct Data {
  std::int64_t batch_size = 32;
  double lr = 1e-5;
  void hyperparameters(auto& list) const { list("batch_size", batch_size)("lr", lr); }
};
}  // namespace

TEST_CASE("hyper-parameters: what a model and its data declare, in order, with their types") {
  CHECK(logger::hparams_yaml(hyperparameters(Net{}, Data{})) ==
        "\"lr\": 1.0e-05\n\"layers\": 4\n\"bias\": true\n\"dropout\": 0.5\n\"kind\": 1\n\"optimizer\": "
        "\"adam\"\n\"act\": \"relu\"\n\"batch_size\": 32\n");
  CHECK(hyperparameters(Scripted{}).empty());
}

TEST_CASE("hyper-parameters: a text that is not UTF-8, or has control characters, is one that YAML's readers read") {
  std::vector<Hyperparameter> const odd{
      {"a\xFF", std::string("caf\xE9 \x7F\t\"\xC2\x85\xE2\x80\xA8\xC3\xA9\xEF\xBF\xBF")}};
  CHECK(logger::hparams_yaml(odd) ==
        "\"a\xEF\xBF\xBD\": \"caf\xEF\xBF\xBD \\u007f\\u0009\\\"\\u0085\\u2028\xC3\xA9\\uffff\"\n");
}

namespace {
struct Lists {
  std::vector<int> layers = {64, 32};
  std::vector<double> betas = {0.5, 1};
  std::vector<std::string> heads = {"a", "b,c"};
  std::vector<bool> bias = {true, false};
  std::vector<int> none = {};
  void hyperparameters(auto& list) const {
    list("layers", layers)("betas", betas)("heads", heads)("bias", bias)("none", none);
  }
};
}  // namespace

TEST_CASE("hyper-parameters: a list is one in YAML, in JSON, in a file and back, and a text elsewhere") {
  auto const all = hyperparameters(Lists{});
  CHECK(logger::hparams_yaml(all) == "\"layers\": [64, 32]\n\"betas\": [0.5, 1.0]\n\"heads\": [\"a\", \"b,c\"]\n"
                                     "\"bias\": [true, false]\n\"none\": []\n");
  CHECK(logger::json_hyperparameters(all) ==
        R"({"hparams":{"layers":[64,32],"betas":[0.5,1],"heads":["a","b,c"],"bias":[true,false],"none":[]}})"
        "\n");
  CHECK(logger::event::hyperparameters(0, all).find("[64, 32]") != std::string::npos);
  CHECK(hyperparameter_text(all) ==
        R"({"layers":[64,32],"betas":[0.5,1.0],"heads":["a","b,c"],"bias":[true,false],"none":[]})");
  auto const saved = from_text(hyperparameter_text(all), "test");
  Lists back{.layers = {1}, .betas = {}, .heads = {}, .bias = {}, .none = {1}};
  HyperparameterReader<Lists> reader(saved, back);
  std::as_const(back).hyperparameters(reader);
  CHECK(reader.differences().empty());
  CHECK(hyperparameters(back) == all);
  auto const other = from_text(R"({"layers":[64,"32"],"betas":1.5,"heads":[],"bias":[],"none":[]})", "test");
  HyperparameterReader<Lists> refused(other, back);
  std::as_const(back).hyperparameters(refused);
  CHECK(
      refused.differences().starts_with("'layers' is [64,\"32\"], and a list, each entry an integer of 4 bytes, is "));
  CHECK(refused.differences().find("'betas' is 1.5") != std::string::npos);
}

namespace {
struct Seeded {
  std::uint64_t seed;
  void hyperparameters(auto& list) const { list("seed", seed); }
};
}  // namespace

TEST_CASE("hyper-parameters: a whole number that files cannot hold is refused, and not written as a negative one") {
  CHECK(logger::hparams_yaml(hyperparameters(Seeded{9223372036854775807U})) == "\"seed\": 9223372036854775807\n");
  CHECK(error_of([] {
          hyperparameters(Seeded{9223372036854775808U});
        }).starts_with("[fulgurite.logger.hyperparameter_large] the hyper-parameter 'seed' is 9223372036854775808"));
}

TEST_CASE("hyper-parameters: model and data that tell two values of one name") {
  CHECK(error_of([] {
          hyperparameters(Net{}, Data{.lr = 1});
        }).starts_with("[fulgurite.logger.hyperparameter_twice] the hyper-parameter 'lr'"));
}
