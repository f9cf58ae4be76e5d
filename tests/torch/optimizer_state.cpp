// What torch::optim optimizers know goes into a file and comes back: a training that was stopped and goes on has the
// bits of one that was not.
#include "fixtures.hpp"

#include <filesystem>
#include <memory>
#include <string>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/optim/lbfgs.hpp>

namespace {
using fixtures::same_bits;
using fulgurite::LibTorch;
using torch::Tensor;
namespace optim = torch::optim;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

/// One of its parameters is never reached by backward.
struct Model : fixtures::Net {
  Tensor idle = register_parameter("idle", torch::ones({2}));
};

template <class X>
using OptionsOf = typename fulgurite::libtorch::TypesOf<X>::Options;
template <class X>
using StateOf = typename fulgurite::libtorch::TypesOf<X>::ParamState;

/// A model and its optimizer, in two groups with rates of their own where the class allows it.
template <class X>
struct Training {
  Model model;
  fulgurite::TorchOptimizer<X> optimizer;
  int evaluations = 0;

  explicit Training(OptionsOf<X> options) : optimizer(made(model, options)) {}
  static X made(Model& model, OptionsOf<X> const& options) {
    if constexpr (std::is_same_v<X, optim::LBFGS>) return X(model.parameters(), options);
    else {
      auto first = model.in->parameters(), second = model.out->parameters();
      first.push_back(model.idle);
      for (auto const& parameter : model.norm->parameters()) second.push_back(parameter);
      return X({optim::OptimizerParamGroup(first), optim::OptimizerParamGroup(second)}, options);
    }
  }
  void run(int steps) {
    for (int step = 0; step != steps; ++step) {
      auto const closure = [&] {
        ++evaluations;
        optimizer.zero_grad();
        auto loss = (model.forward(input) - target).square().mean();
        loss.backward();
        return loss;
      };
      auto const input_now = torch::randn({8, 4});  // from the global generator, which a file has to keep
      input = torch::dropout(input_now, 0.2, true);
      target = input_now.sum(1, true).sin();
      if constexpr (fulgurite::TorchOptimizer<X>::needs_closure) optimizer.step(closure);
      else closure(), optimizer.step();
    }
  }
  Tensor input, target;
};

template <class X>
void check_equal(Training<X>& a, Training<X>& b) {
  for (auto const& p : a.model.named_parameters()) CHECK(same_bits(p.value(), b.model.named_parameters()[p.key()]));
  CHECK(fulgurite::state_text(a.optimizer) == fulgurite::state_text(b.optimizer));
  // LibTorch's own comparisons know of each field, also of one that ours might forget.
  for (std::size_t g = 0; g != a.optimizer.groups(); ++g) {
    auto &left = a.optimizer->param_groups()[g], &right = b.optimizer->param_groups()[g];
    CHECK(static_cast<OptionsOf<X>&>(left.options()) == static_cast<OptionsOf<X>&>(right.options()));
    for (std::size_t p = 0; p != left.params().size(); ++p) {
      auto const found = a.optimizer->state().find(left.params()[p].unsafeGetTensorImpl());
      auto const other = b.optimizer->state().find(right.params()[p].unsafeGetTensorImpl());
      bool const has = found != a.optimizer->state().end();
      REQUIRE(has == (other != b.optimizer->state().end()));
      if (has) CHECK(static_cast<StateOf<X>&>(*found->second) == static_cast<StateOf<X>&>(*other->second));
    }
  }
}

std::filesystem::path file() {
  return std::filesystem::temp_directory_path() / ("fulgurite_optimizer_" + std::to_string(::getpid()));
}

/// `options` are those of the run and of the program that resumes it; rates are moved on the way.
template <class X>
void check(OptionsOf<X> const& options) {
  INFO(fulgurite::TorchOptimizer<X>::name());
  torch::manual_seed(7);
  Training<X> unbroken(options);
  unbroken.optimizer.set_lr(0, 0.02);  // as a schedule would
  unbroken.run(5);
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
  saver.child("optimizer", unbroken.optimizer);
  auto const weights = fixtures::copied_weights(unbroken.model);
  auto random = LibTorch::rng_state();
  auto const fold = [&](Training<X>& training, auto& generators) {
    return [&](auto& archive) { archive.child("optimizer", training.optimizer).child("random", generators); };
  };
  LibTorch::save(file(), unbroken.model, fold(unbroken, random));
  unbroken.run(5);

  torch::manual_seed(8);
  Training<X> from_file(options);
  auto loaded_random = LibTorch::rng_state();
  fixtures::load_run<LibTorch>(file(), from_file.model, fold(from_file, loaded_random));
  loaded_random.restore();
  from_file.run(5);
  check_equal(unbroken, from_file);

  Training<X> from_tree(options);
  from_tree.run(2);  // what it has learnt is forgotten
  fixtures::put_weights(from_tree.model, weights);
  fulgurite::load_state(tree, [&](auto& archive) { archive.child("optimizer", from_tree.optimizer); });
  random.restore();
  from_tree.run(5);
  check_equal(unbroken, from_tree);

  fixtures::put_weights(unbroken.model, weights);  // back to the fifth step in the same objects
  fulgurite::load_state(tree, [&](auto& archive) { archive.child("optimizer", unbroken.optimizer); });
  random.restore();
  unbroken.run(5);
  check_equal(unbroken, from_tree);
  std::filesystem::remove(file());
}

template <class X>
std::string refusal(fulgurite::TorchOptimizer<X>& into, std::string const& text) {
  auto const before = fulgurite::state_text(into);
  try {
    fulgurite::load_state_text(into, text);
  } catch (fulgurite::Error const& error) {
    CHECK(error.identifier() == "fulgurite.optimizer.state");
    CHECK(fulgurite::state_text(into) == before);
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
}  // namespace

TEST_CASE("five steps, a file, five steps in another process: the bits of ten steps", "[optimizer][state]") {
  check<optim::SGD>(optim::SGDOptions(0.1));
  check<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.1));
  check<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).dampening(0.2));
  check<optim::Adam>(optim::AdamOptions(0.01).betas({0.8, 0.9}).weight_decay(0.1).eps(1e-6));
  check<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true));
  check<optim::AdamW>(optim::AdamWOptions(0.01).betas({0.8, 0.9}));
  check<optim::AdamW>(optim::AdamWOptions(0.01).amsgrad(true).weight_decay(0.3));
  check<optim::RMSprop>(optim::RMSpropOptions(0.01).alpha(0.9));
  check<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  check<optim::Adagrad>(optim::AdagradOptions(0.01).lr_decay(0.1).initial_accumulator_value(0.5));
}

namespace {
/// The names of the options that differ where what `saved` saves is loaded into another optimizer, which keeps its own.
template <class O>
std::string told(O& saved, O& into) {
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
  saved.state(saver);
  fulgurite::StateLoader::Problems problems;
  fulgurite::StateLoader::Commits commits;
  fulgurite::StateLoader::Differences differences;
  fulgurite::StateLoader loader(tree, {}, &problems, &commits, &differences);
  into.state(loader);
  for (auto const& commit : commits) commit();
  std::string names;
  for (auto const& one : differences) {
    auto const name = one.substr(1, one.find('\'', 1) - 1);
    if (name.find("group.1.") == std::string::npos)
      names += (names.empty() ? "" : " ") + name.substr(name.rfind('.') + 1);
  }
  return names;
}
template <class X>
std::string told_of(OptionsOf<X> const& before, OptionsOf<X> options, int steps = 2) {
  INFO(fulgurite::TorchOptimizer<X>::name());
  Training<X> saved(before), into(options);
  saved.run(steps);
  saved.optimizer.set_lr(0, 0.5);
  auto const names = told(saved.optimizer, into.optimizer);
  CHECK(into.optimizer.lr(0) == 0.5);  // which the loop sets to what the program's schedules make of it
  options.lr(0.5);
  if constexpr (requires { options.betas(); }) std::get<0>(options.betas()) = std::get<0>(before.betas());
  if constexpr (requires { options.momentum(); }) options.momentum(before.momentum());
  CHECK(static_cast<OptionsOf<X> const&>(into.optimizer->param_groups()[0].options()) == options);
  into.run(1);
  return names;
}
template <class O, class Options>
std::string told_ours(Options const& before, Options const& options) {
  std::vector const one{torch::ones({2}).requires_grad_()}, other{torch::ones({2}).requires_grad_()};
  O saved(one, before), into(other, options);
  return told(saved, into);
}
}  // namespace

TEST_CASE("options of each optimizer: all that differ are told, and the program's are used", "[optimizer][state]") {
  CHECK(told_of<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9),
                            optim::SGDOptions(1).momentum(0.8).dampening(0.1).weight_decay(0.1)) ==
        "dampening weight_decay");
  CHECK(told_of<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9), optim::SGDOptions(1).momentum(0.9).nesterov(true)) ==
        "nesterov");
  CHECK(told_of<optim::Adam>(optim::AdamOptions(0.1).amsgrad(true),
                             optim::AdamOptions(1).betas({0.8, 0.9}).eps(1e-6).weight_decay(0.1)) ==
        "beta2 eps weight_decay amsgrad");
  CHECK(told_of<optim::AdamW>(optim::AdamWOptions(0.1), optim::AdamWOptions(1).betas({0.8, 0.9}).weight_decay(0.1)) ==
        "beta2 weight_decay");
  CHECK(told_of<optim::RMSprop>(optim::RMSpropOptions(0.1).centered(true),
                                optim::RMSpropOptions(1).alpha(0.9).eps(1e-6).weight_decay(0.1)) ==
        "eps weight_decay alpha centered");
  CHECK(told_of<optim::Adagrad>(
            optim::AdagradOptions(0.1),
            optim::AdagradOptions(1).lr_decay(0.1).initial_accumulator_value(0.5).eps(1e-6).weight_decay(0.1)) ==
        "eps weight_decay lr_decay initial_accumulator_value");
  CHECK(told_of<optim::LBFGS>(optim::LBFGSOptions(0.1).max_iter(6),
                              optim::LBFGSOptions(1).max_iter(3).max_eval(4).history_size(2)) ==
        "max_iter max_eval history_size");
  CHECK(told_of<optim::LBFGS>(optim::LBFGSOptions(0.1).max_iter(3).history_size(3),
                              optim::LBFGSOptions(1).max_iter(3).max_eval(3).history_size(9)) == "history_size");

  namespace ours = fulgurite::optim;
  CHECK(told_ours<ours::SGD, ours::SGDOptions>(
            {.momentum = 0.9}, {.momentum = 0.9, .dampening = 0.1, .weight_decay = 0.1}) == "dampening weight_decay");
  CHECK(told_ours<ours::Adam, ours::AdamOptions>({.amsgrad = true},
                                                 {.betas = {0.9, 0.9}, .eps = 1e-6, .weight_decay = 0.1}) ==
        "beta2 eps weight_decay amsgrad");
  CHECK(told_ours<ours::AdamW, ours::AdamWOptions>({.amsgrad = true},
                                                   {.betas = {0.9, 0.9}, .eps = 1e-6, .weight_decay = 0.1}) ==
        "beta2 eps weight_decay amsgrad");
  CHECK(told_ours<ours::RMSprop, ours::RMSpropOptions>({}, {.alpha = 0.9, .eps = 1e-6, .weight_decay = 0.1}) ==
        "alpha eps weight_decay");
  CHECK(told_ours<ours::Adagrad, ours::AdagradOptions>(
            {}, {.lr_decay = 0.1, .weight_decay = 0.1, .initial_accumulator_value = 0.5, .eps = 1e-6}) ==
        "lr_decay weight_decay initial_accumulator_value eps");
  CHECK(told_ours<ours::LBFGS, ours::LBFGSOptions>({}, {.max_iter = 3, .max_eval = 4, .tolerance_grad = 0.1}) ==
        "max_iter max_eval tolerance_grad");
}

TEST_CASE("options of a scaler of losses: all that differ are reported, and the scale is the file's",
          "[optimizer][state]") {
  using Scaler = fulgurite::LibTorch::Scaler<fulgurite::Fp16Mixed>;
  Scaler saved({.init_scale = 64, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 2}, at::kCPU);
  Scaler into(fulgurite::Fp16Mixed{}, at::kCPU);
  CHECK(told(saved, into) == "init_scale growth_factor backoff_factor growth_interval");
  CHECK(into.scale() == 64);
}

TEST_CASE("an option that a hook has changed stays changed where the program gives the same number as before",
          "[optimizer][state]") {
  Training<optim::Adam> saved(optim::AdamOptions(0.1)), into(optim::AdamOptions(0.1));
  auto const decay = [](auto& training) -> double& {
    return static_cast<optim::AdamOptions&>(training.optimizer->param_groups()[0].options()).weight_decay();
  };
  decay(saved) = 0.25;
  CHECK(told(saved.optimizer, into.optimizer).empty());
  CHECK(decay(into) == 0.25);
  Training<optim::Adam> other(optim::AdamOptions(0.1).weight_decay(0.5));
  CHECK(told(saved.optimizer, other.optimizer) == "weight_decay");
  CHECK(decay(other) == 0.5);
}

TEST_CASE("an option that needs a tensor which the file does not hold is refused by its name", "[optimizer][state]") {
  Training<optim::Adam> plain(optim::AdamOptions(0.01)), amsgrad(optim::AdamOptions(0.01).amsgrad(true));
  plain.run(1);
  CHECK_THAT(refusal(amsgrad.optimizer, fulgurite::state_text(plain.optimizer)),
             ContainsSubstring("has no max_exp_avg_sq, which the program's option amsgrad needs"));
  Training<optim::RMSprop> without(optim::RMSpropOptions(0.01));
  Training<optim::RMSprop> with(optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  without.run(1);
  auto const said = refusal(with.optimizer, fulgurite::state_text(without.optimizer));
  CHECK_THAT(said, ContainsSubstring("has no grad_avg, which the program's option centered needs"));
  CHECK_THAT(said, ContainsSubstring("has no momentum_buffer, which the program's option momentum needs"));
}

TEST_CASE(
    "a file of LibTorch's optimizer is none of ours of the same name: the Error names what is missing, and what to "
    "do",
    "[optimizer][state]") {
  namespace ours = fulgurite::optim;
  std::vector const parameters{torch::ones({2}).requires_grad_()};
  auto theirs = std::make_tuple(fulgurite::TorchOptimizer<optim::Adam>(optim::Adam(parameters)));
  auto here = std::make_tuple(ours::Adam(parameters));
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
  fulgurite::loop::fold_each_optimizer(theirs, saver);
  try {
    fulgurite::load_state(tree, [&](auto& archive) { fulgurite::loop::fold_each_optimizer(here, archive); });
    FAIL("it was loaded");
  } catch (fulgurite::Error const& error) {
    CHECK(std::string(error.what()) ==
          "[fulgurite.checkpoint.state_entry] '0 fulgurite::optim::Adam' is not in the saved state: resume with the "
          "parts that it was saved of, or begin a new run with its weights, load_weights(model, file)");
  }
  CHECK(fulgurite::loop::optimizer_kind<std::tuple_element_t<0, decltype(theirs)>>() == "torch::optim::Adam");
  CHECK(fulgurite::loop::optimizer_kind<std::tuple_element_t<0, decltype(here)>>() == "fulgurite::optim::Adam");
}

TEST_CASE("LBFGS resumes with its history", "[optimizer][state]") {
  auto const options = optim::LBFGSOptions(0.1).max_iter(4).history_size(3);
  check<optim::LBFGS>(options);
  check<optim::LBFGS>(optim::LBFGSOptions(options).line_search_fn("strong_wolfe"));
  auto const first_only = optim::LBFGSOptions(0.1).max_iter(1);  // its H_diag is a whole number, its history empty
  Training<optim::LBFGS> once(first_only), again(first_only);
  once.run(1);
  fulgurite::load_state_text(again.optimizer, fulgurite::state_text(once.optimizer));
  CHECK(fulgurite::state_text(once.optimizer) == fulgurite::state_text(again.optimizer));
}

TEST_CASE("a parameter that was never stepped has no state after loading", "[optimizer][state]") {
  Training<optim::Adam> training(optim::AdamOptions(0.01));
  auto const fresh = fulgurite::state_text(training.optimizer);
  training.run(1);
  CHECK(training.optimizer->state().size() == 6);  // all but `idle`
  auto const stepped = fulgurite::state_text(training.optimizer);
  fulgurite::load_state_text(training.optimizer, fresh);
  CHECK(training.optimizer->state().empty());
  fulgurite::load_state_text(training.optimizer, stepped);
  auto* const weight = training.model.in->weight.unsafeGetTensorImpl();
  auto& state = static_cast<optim::AdamParamState&>(*training.optimizer->state().at(weight));
  CHECK(state.step() == 1);
  CHECK(state.exp_avg().defined());
  CHECK_FALSE(state.max_exp_avg_sq().defined());
  CHECK_FALSE(state.exp_avg().requires_grad());
}

TEST_CASE("a state that was loaded in inference mode can be trained with", "[optimizer][state]") {
  Training<optim::Adam> training(optim::AdamOptions(0.01)), loaded(optim::AdamOptions(0.01));
  training.run(1);
  {
    c10::InferenceMode const on;
    fulgurite::load_state_text(loaded.optimizer, fulgurite::state_text(training.optimizer));
  }
  CHECK_NOTHROW(loaded.run(1));
}

TEST_CASE("a state of another optimizer is refused with all that differs, and nothing changes", "[optimizer][state]") {
  Training<optim::Adam> adam(optim::AdamOptions(0.01));
  Training<optim::SGD> sgd(optim::SGDOptions(0.1).momentum(0.9));
  Training<optim::LBFGS> lbfgs(optim::LBFGSOptions(0.1).max_iter(3).history_size(3));
  adam.run(2);
  sgd.run(2);
  lbfgs.run(2);
  auto const of_adam = fulgurite::state_text(adam.optimizer);
  CHECK_THAT(
      refusal(sgd.optimizer, of_adam),
      StartsWith("[fulgurite.optimizer.state] the saved state is not of this SGD: it was saved by Adam. Groups"));
  CHECK_THAT(refusal(lbfgs.optimizer, of_adam),
             ContainsSubstring("it was saved by Adam; it has [3, 4] parameters by group, here there are [7]"));

  auto p = std::vector{torch::ones({3, 4}).requires_grad_(), torch::ones({4}).requires_grad_(),
                       torch::ones({2}).requires_grad_()};
  auto q = std::vector{torch::ones({1, 5}).requires_grad_(), torch::ones({1}, torch::kDouble).requires_grad_(),
                       torch::ones({3}).requires_grad_(), torch::ones({3}).requires_grad_()};
  auto other = LibTorch::adopt(
      optim::Adam({optim::OptimizerParamGroup(p), optim::OptimizerParamGroup(q)}, optim::AdamOptions()));
  auto const said = refusal(other, of_adam);
  CHECK_THAT(said, ContainsSubstring("group.0.param.1 has shape [3], here [4]; group.1.param.0 has shape [1, 3], here "
                                     "[1, 5]; group.1.param.1.exp_avg is F32 [1], here F64 [1]"));
  CHECK(other->state().empty());

  auto const of_lbfgs = fulgurite::state_text(lbfgs.optimizer);
  CHECK_THAT(refusal(lbfgs.optimizer, replaced(of_lbfgs, "\"ro\":[{", "\"ro\":[],\"rest\":[{")),
             ContainsSubstring("group.0.param.0 has lists of old steps whose lengths do not agree"));
  CHECK_THROWS_WITH(fulgurite::load_state_text(adam.optimizer, replaced(of_adam, "\"exp_avg\"", "\"exp_ave\"")),
                    StartsWith("[fulgurite.checkpoint.state_entry] 'group.0.param.0.exp_avg'"));
  CHECK(fulgurite::state_text(adam.optimizer) == of_adam);
}

namespace {
/// A class of a user's own: what it keeps is known to it alone.
struct Own : optim::SGD {
  using optim::SGD::SGD;
};
struct Remembering : optim::SGD {
  using optim::SGD::SGD;
  long count = 0;
  void state(auto& archive) { archive("count", count); }
};
}  // namespace

TEST_CASE("an optimizer of one's own has the state that it says", "[optimizer][state]") {
  STATIC_REQUIRE(!fulgurite::Stateful<fulgurite::TorchOptimizer<Own>, fulgurite::StateSaver>);
  STATIC_REQUIRE(fulgurite::Stateful<fulgurite::TorchOptimizer<optim::SGD>, fulgurite::ArchiveProbe>);
  std::vector const parameters{torch::ones({1}).requires_grad_()};
  auto first = LibTorch::adopt(Remembering(parameters, optim::SGDOptions(0.1)));
  auto second = LibTorch::adopt(Remembering(parameters, optim::SGDOptions(0.1)));
  first->count = 3;
  fulgurite::load_state_text(second, fulgurite::state_text(first));
  CHECK(second->count == 3);
}

TEST_CASE("a sparse tensor of an optimizer is refused by name when it is saved", "[optimizer][state]") {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  auto optimizer = LibTorch::adopt(optim::SGD(table->parameters(), optim::SGDOptions(0.1).momentum(0.9)));
  table->forward(torch::tensor({1, 2})).sum().backward();
  optimizer.step();
  CHECK_THROWS_WITH(fulgurite::state_text(optimizer),
                    StartsWith("[fulgurite.optimizer.state] an optimizer keeps a sparse"));
}
