#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/loop/log_hyperparameters.hpp>

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

TEST_CASE("hyper-parameters: model and data that tell two values of one name") {
  CHECK(error_of([] {
          hyperparameters(Net{}, Data{.lr = 1});
        }).starts_with("[fulgurite.logger.hyperparameter_twice] the hyper-parameter 'lr'"));
}
