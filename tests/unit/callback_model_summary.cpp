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
