#include <fulgurite/callback/lambda_callback.hpp>

#include "callback_run.hpp"

using namespace fulgurite;
using Words = std::vector<std::string>;

namespace {
template <class Hook>
constexpr bool takes = !requires { decltype(on<Hook>([] {}))::names_no_event; };
}  // namespace
static_assert(takes<hook::on_train_start> && takes<hook::teardown>);
static_assert(!takes<hook::training_step> && !takes<hook::optimizer_step> && !takes<hook::log_metrics> && !takes<int>,
              "no events");

TEST_CASE("lambda callback: functions under the names of events, in any of their forms") {
  Words heard;
  Scripted model;
  fitted(model, quick(1), 2,
         LambdaCallback{on<hook::on_train_start>([&] { heard.push_back("start"); }),
                        on<hook::on_train_batch_end>(
                            [&](auto& ctx) { heard.push_back("ctx " + std::to_string(ctx.batch_idx())); }),
                        on<hook::on_validation_batch_end>(
                            [&](double& batch, auto&) { heard.push_back("batch " + std::to_string(int(batch))); })},
         LambdaCallback{on<hook::on_train_batch_end>([&](auto& outputs, double&, auto&) {
           heard.push_back("outputs " + std::to_string(int(outputs.loss.value())));
         })});
  CHECK(heard == Words{"start", "ctx 0", "outputs 0", "ctx 1", "outputs -1", "batch 0"});
}

TEST_CASE("lambda callback: an answer counts") {
  Scripted model;
  fitted(model, quick(9), 2,
         LambdaCallback{on<hook::on_train_epoch_end>([](auto& ctx) { return Stop{ctx.current_epoch() == 2}; })});
  CHECK(model.epochs == 3);
}

TEST_CASE("lambda callback: it can be copied, and come from a function") {
  int heard = 0;
  auto const made = [&] { return LambdaCallback{on<hook::on_train_start>([&] { ++heard; })}; };
  LambdaCallback first = made();
  LambdaCallback second{first};
  Scripted model;
  fitted(model, quick(1), 1, second);
  CHECK(heard == 1);
}
