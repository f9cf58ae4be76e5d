#include <fulgurite/callback/model_summary.hpp>

#include "callback_run.hpp"
#include "callback_stream.hpp"

using namespace fulgurite;

namespace {
int asked_depth = 0;
struct Summarizing : SavingBackend {
  template <class Model>
  static std::vector<report::ModelRow> summarize(Model const&, int max_depth) {
    asked_depth = max_depth;
    return {{"", "Net", 10, 4, 40, true}, {"a", "Linear", 10, 4, 40, false}};
  }
};
struct Summarized : toy::Device {
  using Backend = Summarizing;
  int number = 0;
  int rank() const { return number; }
};
std::string printed(ModelSummaryOptions options, int rank = 0) {
  Stream stream;
  options.stream = stream.file;
  Scripted model;
  auto trainer = make_trainer<Scripted>(quick(1), Summarized{{}, rank}, Float32{}, Automatic{}, ModelSummary{options});
  trainer.fit(model, toy::batches(1), toy::batches(1));
  return stream.all();
}
}  // namespace

TEST_CASE("summary: printed once, when a fit starts") {
  CHECK(printed({.max_depth = 3}) == "  | Name | Type   | Params | Trainable | Size | Mode\n"
                                     "----------------------------------------------------\n"
                                     "0 | a    | Linear | 10     | 4         | 40 B | eval\n"
                                     "----------------------------------------------------\n"
                                     "4         Trainable params\n"
                                     "6         Non-trainable params\n"
                                     "10        Total params\n"
                                     "40 B      Total size of parameters and buffers\n");
  CHECK(asked_depth == 3);
  CHECK(printed({}, 1).empty());
  CHECK(printed({.max_depth = 0}).empty());
  printed({.max_depth = -1});
  CHECK(asked_depth == -1);
  CHECK(error_of([] { ModelSummary{{.max_depth = -2}}; }).starts_with("[fulgurite.callback.summary_depth]"));
}

TEST_CASE("summary: frozen and shared parameters are marked, an example adds columns, narrow tables clip their cells") {
  using report::ModelRow;
  std::vector<ModelRow> rows{{.name = "", .type = "Net", .parameters = 1300, .trainable = 1000, .bytes = 5200},
                             {.name = "encoder.layers.0.attention.words",
                              .type = "Embedding",
                              .parameters = 1000,
                              .trainable = 1000,
                              .bytes = 4000},
                             {.name = "head",
                              .type = "VeryLongNameOfAModule",
                              .parameters = 1300,
                              .trainable = 300,
                              .bytes = 5200,
                              .training = false,
                              .shared = 1000,
                              .shared_with = "encoder.layers.0.attention.words"},
                             {.name = "head.0", .type = "Linear", .parameters = 300, .trainable = 0, .bytes = 1200}};
  auto const plain = report::model_table(rows);
  CHECK(plain.find("0 | encoder.layers.0.attention.words | Embedding             | 1.0 K   | yes       |") !=
        std::string::npos);
  CHECK(plain.find(
            "1 | head                             | VeryLongNameOfAModule | 1.3 K * | 300       | 5.2 kB | eval \n") !=
        std::string::npos);
  CHECK(plain.find("| 300     | frozen    |") != std::string::npos);
  CHECK(plain.find("\n* head: 1.0 K of these are parameters of encoder.layers.0.attention.words, and count once in the "
                   "totals\n") != std::string::npos);
  CHECK(plain.find("FLOPs") == std::string::npos);
  rows[0].in = "[8, 1, 28, 28]", rows[0].out = "[8, 10]", rows[0].flops = 2500000;
  rows[1].in = "[8, 5]", rows[1].out = "[8, 5, 200]", rows[1].flops = 0;
  rows[2].flops = rows[3].flops = 2500000;
  auto const wide = report::model_table(rows);
  CHECK(wide.find("| Mode  | FLOPs | In sizes | Out sizes  \n") != std::string::npos);
  CHECK(wide.find("| train | 0     | [8, 5]   | [8, 5, 200]\n") != std::string::npos);
  CHECK(wide.find("| eval  | 2.5 M | ?        | ?          \n") != std::string::npos);
  CHECK(wide.find("\n2.5 M     FLOPs of matrix products and convolutions, example forward\n"
                  "Example:  [8, 1, 28, 28] to [8, 10]\n") != std::string::npos);
  auto const narrow = report::model_table(rows, 105);
  auto const line = narrow.substr(0, narrow.find('\n'));
  CHECK(report::display_width(line) == 105);
  CHECK(narrow.find("…") != std::string::npos);
  CHECK(narrow.find("…ayers.0.attention.words |") != std::string::npos);  // the end of a name
  CHECK(narrow.find("| VeryLong") != std::string::npos);                  // the beginning of a type
  CHECK(narrow.find("Mode") == std::string::npos);
  auto const terminal = report::model_table(rows, 80);
  CHECK(report::display_width(terminal.substr(0, terminal.find('\n'))) == 80);
  CHECK(terminal.starts_with("  | Name                     | Type          | Params  | Trainable | Out sizes  \n"));
  CHECK(terminal.find("0 | …ayers.0.attention.words | Embedding     |") != std::string::npos);
  auto const small = report::model_table(rows, 40);
  CHECK(small.starts_with("  | Name            | Type     | Params \n"));
  CHECK(small.find("0 | …ttention.words | Embeddi… | 1.0 K  \n") != std::string::npos);
  CHECK(small.find("* head: 1.0 K of these are parameters of\n") != std::string::npos);
  CHECK(small.find("5.2 kB    Total size of parameters and\n          buffers\n") != std::string::npos);
  CHECK(report::model_table(rows, 200) == wide);
  auto const rows_of = [](std::string const& text) { return text.substr(0, text.find('*', text.rfind("---"))); };
  CHECK(rows_of(report::model_table(rows, 20)) == rows_of(report::model_table(rows, 1)));  // none is clipped to nothing
  CHECK(error_of([] { ModelSummary{{.columns = -1}}; }).starts_with("[fulgurite.callback.summary_columns]"));
}
