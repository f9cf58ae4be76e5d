// What Captured says while a program runs: the one warning where steps stay eager, the Error where a replay cannot go
// on.

#include "fixtures.hpp"
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include <torch/library.h>
#include <unistd.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

using namespace fulgurite;

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear line = register_module("line", torch::nn::Linear(2, 1));
  torch::Tensor forward(torch::Tensor const& rows) { return line->forward(rows).pow(2).mean(); }
  auto configure_optimizers() { return optim::SGD(parameters(), {.lr = 0.001}); }
};
struct Steps : Net {
  torch::Tensor training_step(auto const& batch) { return forward(batch.data); }
};
struct Reads : Net {
  torch::Tensor training_step(auto const& batch) {
    return forward(batch.data) * batch.data.sum().template item<float>();
  }
};

/// An operator that no list of ours can know, as a later LibTorch may have one: as many rows as the first target says,
/// and no tag that says so.
at::Tensor first_rows(at::Tensor const& rows, at::Tensor const& target) {
  return rows.narrow(0, 0, target.data_ptr<std::int64_t>()[0]).clone();
}
TORCH_LIBRARY_FRAGMENT(aten, library) {
  library.def("fulgurite_test_first_rows(Tensor rows, Tensor target) -> Tensor");
  library.impl("fulgurite_test_first_rows", c10::DispatchKey::CPU, TORCH_FN(first_rows));
}
struct Cuts : Net {
  torch::Tensor training_step(auto const& batch) {
    static auto const cut = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("aten::fulgurite_test_first_rows", "")
                                .typed<at::Tensor(at::Tensor const&, at::Tensor const&)>();
    return forward(batch.data) + cut.call(batch.data, batch.target).mean();
  }
};

std::vector<data::Batch> batches(int n, int rows = 4) {
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) all.push_back({torch::full({rows, 2}, 1.0 + i), torch::full({rows}, 2, torch::kLong)});
  return all;
}

template <class M>
void fit(std::vector<data::Batch> const& data) {
  M net;
  auto trainer = make_trainer<M>({.max_epochs = 1, .log_every_n_steps = 1}, Captured{SingleDevice{cpu}}, Float32{},
                                 Automatic{}, NoDefaults{});
  trainer.fit(net, data);
}

/// What the program writes to stderr while `f` runs.
template <class F>
std::string told(F&& f) {
  std::FILE* const file = std::tmpfile();
  int const outer = dup(2);
  std::fflush(stderr);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(outer, 2);
  close(outer);
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("steps of two shapes that stay eager for one reason: it is told once") {
  auto data = batches(4);
  for (auto const& batch : batches(4, 3)) data.push_back(batch);
  auto const said = told([&] { fit<Reads>(data); });
  std::string const warning =
      "[fulgurite.capture.eager] steps of a captured fit run as they are written, because of this: ";
  auto const at = said.find(warning);
  REQUIRE(at != std::string::npos);
  CHECK(said.find(warning, at + 1) == std::string::npos);
  CHECK(said.find("aten::_local_scalar_dense", at) != std::string::npos);
}

TEST_CASE("why steps stay as written is among the trainer's warnings") {
  Reads net;
  auto trainer =
      make_trainer<Reads>({.max_epochs = 1}, Captured{SingleDevice{cpu}}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(net, batches(4));
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings()[0].starts_with("[fulgurite.capture.eager] steps of a captured fit run as they are written"));
}

TEST_CASE("copies of a strategy share their report, and neither their replays nor each other's warnings") {
  Captured one{SingleDevice{cpu}};
  Steps steps;
  auto trainer = make_trainer<Steps>({.max_epochs = 1}, one, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(steps, batches(12));
  CHECK(one.report()->replayed > 0);
  CHECK(one.replays() == 0);
  CHECK(trainer.strategy().replays() >= one.report()->replayed);

  auto other = one;
  struct NoModule {
  } plain;
  other.setup(plain, Float32{});
  one.give_up("what the loop says");
  std::vector<std::string> said;
  auto const say = [&](std::string_view, std::string const& sentence) { said.push_back(sentence); };
  one.pass_warnings(say);
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("the model is no torch::nn::Module") != std::string::npos);
  other.pass_warnings(say);
  CHECK(said.size() == 1);
  CHECK(one.report()->reasons.size() == 2);
}

TEST_CASE("epochs of one or two batches, whose steps are all checked, run as they are written in the end, and say so") {
  auto const captured = [](std::vector<data::Batch> const& data) {
    Captured strategy{SingleDevice{cpu}};
    auto const report = strategy.report();
    Steps steps;
    auto trainer = make_trainer<Steps>({.max_epochs = 40}, strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(steps, data);
    auto const warnings = trainer.warnings();
    CHECK(warnings.size() == report->reasons.size());
    for (auto const& warning : warnings) CHECK(warning.find("let an epoch have more batches") != std::string::npos);
    return *report;
  };
  for (int const batch : {1, 2}) {
    auto const report = captured(batches(batch));
    CHECK(report.replayed == 0);
    CHECK(report.checked == 3 + 16);
    CHECK(report.reasons.size() == 1);
  }
  auto short_last = batches(6);
  short_last.push_back(batches(1, 3)[0]);  // always checked, beside others that are replayed
  for (auto const& data : {batches(3), short_last}) {
    auto const report = captured(data);
    CHECK(report.replayed > 20);
    CHECK(report.reasons.empty());
  }
}

TEST_CASE("an operator whose shapes depend on values, and which does not say so: one Error in a replay") {
  auto data = batches(8);
  fit<Cuts>(data);
  data[6].target.fill_(1);  // the second replay
  CHECK_THROWS_WITH(fit<Cuts>(data),
                    Catch::Matchers::StartsWith("[fulgurite.capture.layout] aten::fulgurite_test_first_rows returned"));
}
