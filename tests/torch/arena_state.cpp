// What the optimizers over an arena save is all that they know: after loading, further steps have the bits of a
// training that was not stopped.
#include "fixtures.hpp"

#include <filesystem>
#include <string>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/optim/lbfgs.hpp>

namespace {
using fixtures::Net;
using fixtures::same_bits;
using fulgurite::LibTorch;
namespace ours = fulgurite::optim;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

/// Batch norm's two parameters get a gradient in every second step only, so their count of steps is another.
template <class Net, class Optimizer>
void train(Net& net, Optimizer& optimizer, int from, int to) {
  for (int step = from; step != to; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(step));
    auto const input = torch::randn({8, 4});
    auto const closure = [&] {
      optimizer.zero_grad();
      auto const hidden = net.in->forward(input);
      auto const loss = net.out->forward(step % 2 == 0 ? net.norm->forward(hidden) : hidden).square().mean();
      loss.backward();
      return loss;
    };
    if constexpr (Optimizer::needs_closure) optimizer.step(closure);
    else closure(), optimizer.step();
  }
}

std::filesystem::path file() {
  return std::filesystem::temp_directory_path() / ("fulgurite_arena_" + std::to_string(::getpid()));
}

/// `make(net)` returns the optimizer of the run, and of the program that resumes it.
void check(auto make, auto change) {
  torch::manual_seed(1);
  Net unbroken, resumed;
  auto first = make(unbroken);
  INFO(first.name());
  change(first);
  train(unbroken, first, 0, 5);
  auto const fold = [](auto& optimizer) {
    return [&optimizer](auto& archive) { archive.child("optimizer", optimizer); };
  };
  LibTorch::save(file(), unbroken, fold(first));
  train(unbroken, first, 5, 8);

  auto second = make(resumed);
  fixtures::load_run<LibTorch>(file(), resumed, fold(second));
  train(resumed, second, 5, 8);
  for (auto const& p : unbroken.named_parameters()) CHECK(same_bits(p.value(), resumed.named_parameters()[p.key()]));
  CHECK(fulgurite::state_text(first) == fulgurite::state_text(second));

  fixtures::load_run<LibTorch>(file(), unbroken, fold(first));  // back to the fifth step in the same objects
  train(unbroken, first, 5, 8);
  for (auto const& p : unbroken.named_parameters()) CHECK(same_bits(p.value(), resumed.named_parameters()[p.key()]));
  std::filesystem::remove(file());
}

/// Two groups.
template <class Optimizer, class Options>
void check_groups(Options const& one, Options const& two) {
  check(
      [=](Net& net) {
        auto second = net.norm->parameters();
        for (auto const& parameter : net.out->parameters()) second.push_back(parameter);
        return Optimizer(std::vector<ours::Group<Options>>{{net.in->parameters(), one}, {second, two}});
      },
      [](auto& optimizer) { optimizer.set_lr(1, 0.02); });
  check([=](Net& net) { return Optimizer(net, one); }, [](auto&) {});
}
}  // namespace

TEST_CASE("an arena optimizer goes on from a file with the same bits", "[arena][state]") {
  check_groups<ours::SGD, ours::SGDOptions>({.lr = 0.1}, {.lr = 0.2, .weight_decay = 0.1});
  check_groups<ours::SGD, ours::SGDOptions>({.lr = 0.1, .momentum = 0.9, .nesterov = true},
                                            {.lr = 0.1, .momentum = 0.5, .dampening = 0.1});
  check_groups<ours::Adam, ours::AdamOptions>({.betas = {0.8, 0.9}}, {.betas = {0.7, 0.99}, .eps = 1e-6});
  check_groups<ours::Adam, ours::AdamOptions>({.lr = 0.1, .amsgrad = true}, {.lr = 0.2, .amsgrad = true});
  check_groups<ours::AdamW, ours::AdamWOptions>({.betas = {0.8, 0.9}}, {.weight_decay = 0.3});
  check_groups<ours::AdamW, ours::AdamWOptions>({.lr = 0.1, .amsgrad = true}, {.amsgrad = true});
  check_groups<ours::RMSprop, ours::RMSpropOptions>({.alpha = 0.9}, {.alpha = 0.8, .weight_decay = 0.1});
  check_groups<ours::RMSprop, ours::RMSpropOptions>({.momentum = 0.9, .centered = true},
                                                    {.momentum = 0.5, .centered = true});
  check_groups<ours::Adagrad, ours::AdagradOptions>({.lr_decay = 0.1}, {.initial_accumulator_value = 0.5});
  for (bool const search : {false, true}) {
    ours::LBFGSOptions options{.lr = 0.1, .max_iter = 4, .history_size = 3};
    if (search) options.line_search_fn = "strong_wolfe";
    check([=](Net& net) { return ours::LBFGS(net, options); }, [](auto& optimizer) { optimizer.set_lr(0, 0.05); });
  }
}

TEST_CASE("momentum that a schedule has set is in the state", "[arena][state]") {
  check([](Net& net) { return ours::SGD(net, {.lr = 0.1, .momentum = 0.9}); },
        [](auto& optimizer) { optimizer.set_momentum(0, 0.3); });
  check([](Net& net) { return ours::AdamW(net); }, [](auto& optimizer) { optimizer.set_momentum(0, 0.3); });
}

TEST_CASE("a state of another arena optimizer is refused with all that differs", "[arena][state]") {
  Net net;
  torch::nn::Linear wider(4, 5), small(3, 1);
  ours::SGD saved(std::vector{net.in->weight, net.in->bias}, {.momentum = 0.9}),
      other(std::vector{wider->weight, small->bias}, {.momentum = 0.9});
  auto const text = fulgurite::state_text(saved), before = fulgurite::state_text(other);
  CHECK_THROWS_WITH(fulgurite::load_state_text(other, text),
                    StartsWith("[fulgurite.optim.state_mismatch]") &&
                        ContainsSubstring("'momentum_buffer' of '0' is F32 [3, 4], here of type F32 [5, 4]; "
                                          "'momentum_buffer' of '1' is F32 [3], here of type F32 [1]"));
  CHECK(fulgurite::state_text(other) == before);

  // A momentum for which this optimizer has no buffer is left out; a file that was changed by hand has a wrong count.
  ours::SGD plain(std::vector{net.in->bias});
  auto of_plain = fulgurite::state_text(plain);
  auto const changed = [&](std::string const& from, std::string const& to) {
    auto copy = of_plain;
    REQUIRE(copy.find(from) != std::string::npos);
    return copy.replace(copy.find(from), from.size(), to);
  };
  torch::nn::Linear like(4, 3);
  ours::SGD with_momentum(std::vector{like->bias}, {.momentum = 0.5});
  fulgurite::load_state_text(plain, fulgurite::state_text(with_momentum));
  CHECK(plain.momentum(0) == 0.0);
  CHECK(fulgurite::state_text(plain) == of_plain);
  // One that a hook has set to 0 has a buffer.
  auto const of_momentum = fulgurite::state_text(with_momentum);
  with_momentum.set_momentum(0, 0.0);
  fulgurite::load_state_text(with_momentum, of_momentum);
  CHECK(with_momentum.momentum(0) == 0.5);
  CHECK_THROWS_WITH(fulgurite::load_state_text(plain, changed("\"steps\":0", "\"steps\":-1")),
                    ContainsSubstring("'0' has taken -1 steps"));
  CHECK(fulgurite::state_text(plain) == of_plain);

  ours::LBFGS lbfgs(net, {.max_iter = 4, .history_size = 3});
  train(net, lbfgs, 0, 3);
  of_plain = fulgurite::state_text(lbfgs);
  CHECK_THROWS_WITH(fulgurite::load_state_text(lbfgs, changed("\"ro\":[{", "\"ro\":[],\"rest\":[{")),
                    ContainsSubstring("lists of old steps whose lengths do not agree"));
}

TEST_CASE("what was loaded in inference mode can be trained with", "[arena][state]") {
  auto const check_training = [](auto make) {
    Net first, second;
    auto saved = make(first), loaded = make(second);
    train(first, saved, 0, 2);
    {
      c10::InferenceMode const on;
      fulgurite::load_state_text(loaded, fulgurite::state_text(saved));
    }
    CHECK_NOTHROW(train(second, loaded, 2, 4));
  };
  check_training([](Net& net) { return ours::Adam(net); });
  check_training([](Net& net) { return ours::LBFGS(net, {.max_iter = 4}); });
}

namespace {
/// Processes that keep a part of one optimizer's state each, in one process: what they gather waits until all have
/// come.
struct Ranks {
  std::vector<std::vector<at::Tensor>> gathered;

  explicit Ranks(int world) : gathered(static_cast<std::size_t>(world)) {}
  fulgurite::libtorch::ArenaPart part(int rank) {
    return {rank, static_cast<int>(gathered.size()),
            [this, rank](at::Tensor const& flat) { gathered[static_cast<std::size_t>(rank)].push_back(flat); }};
  }
  void meet() {
    auto const world = static_cast<std::int64_t>(gathered.size());
    for (std::size_t i = 0; i != gathered[0].size(); ++i)
      for (std::size_t from = 0; from != gathered.size(); ++from)
        for (auto& to : gathered) to[i].chunk(world)[from].copy_(gathered[from][i].chunk(world)[from]);
    for (auto& one : gathered) one.clear();
  }
};

/// Wide enough that a part ends inside a parameter.
struct Wide : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 30));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(30));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(30, 1));
};

}  // namespace

TEST_CASE("arena: a process that alone has looked at its part before the first step asks the others for nothing") {
  Ranks ranks(2);
  std::vector<Wide> nets(2);
  std::vector<ours::Adam> all;
  for (auto& net : nets) all.emplace_back(net);
  for (int rank = 0; rank != 2; ++rank) all[static_cast<std::size_t>(rank)].keep_part(ranks.part(rank));
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
  all[0].state(saver);
  for (std::size_t rank = 0; rank != 2; ++rank) {
    nets[rank].to(torch::kDouble);
    all[rank].parameters().arena().look();
    CHECK(all[rank].parameters().arena().buffers()[0].parameters.scalar_type() == torch::kDouble);
    CHECK(ranks.gathered[rank].empty());
  }
}

TEST_CASE("arena: a process that keeps a part leaves out what none of its options needs, as one that keeps all does") {
  Ranks ranks(2);
  std::vector<Wide> nets(3);
  ours::Adam saved(nets[0], {.amsgrad = true}), part(nets[1]), whole(nets[2]);
  train(nets[0], saved, 0, 3);
  auto const text = fulgurite::state_text(saved);
  part.keep_part(ranks.part(0));
  fulgurite::load_state_text(part, text);
  fulgurite::load_state_text(whole, text);
  whole.keep_part(ranks.part(0));
  CHECK(fulgurite::state_text(part) == fulgurite::state_text(whole));
}

namespace {
void check_parts(int world, int steps_before, auto make) {
  torch::manual_seed(1);
  Wide alone;
  auto optimizer = make(alone);
  INFO(optimizer.name());
  Ranks ranks(world);
  std::vector<Wide> nets(static_cast<std::size_t>(world));
  std::vector<decltype(make(alone))> all;
  for (auto& net : nets) {
    for (std::size_t i = 0; i != net.parameters().size(); ++i) net.parameters()[i].data().copy_(alone.parameters()[i]);
    all.push_back(make(net));
    train(net, all.back(), 0, steps_before);
  }
  train(alone, optimizer, 0, steps_before);
  std::int64_t kept = 0;
  for (int rank = 0; rank != world; ++rank) {
    auto& one = all[static_cast<std::size_t>(rank)];
    auto const whole = one.kept_numbers();
    one.keep_part(ranks.part(rank));
    CHECK(one.kept_numbers() * world < whole + 64 * world);  // a part ends where a slice may begin
    kept += one.kept_numbers();
  }
  CHECK(kept >= optimizer.kept_numbers());

  auto const steps = [&](int from, int to) {
    for (int step = from; step != to; ++step) {
      train(alone, optimizer, step, step + 1);
      for (std::size_t rank = 0; rank != nets.size(); ++rank) train(nets[rank], all[rank], step, step + 1);
      ranks.meet();
    }
    for (auto const& net : nets)
      for (std::size_t i = 0; i != net.parameters().size(); ++i)
        CHECK(same_bits(net.parameters()[i], alone.parameters()[i]));
  };
  steps(steps_before, 5);
  CHECK_THROWS_WITH(all[0].state("in.weight"), StartsWith("[fulgurite.optim.part]"));

  // In memory, each for itself: there and back.
  std::vector<fulgurite::ArchiveNode> own(nets.size());
  auto const save = [](auto& from, fulgurite::ArchiveNode& tree) {
    fulgurite::StateSaver saver(tree);
    from.state(saver);
  };
  auto const load = [](auto& to, fulgurite::ArchiveNode const& tree) {
    fulgurite::load_state(tree, [&](auto& archive) { to.state(archive); });
  };
  for (std::size_t rank = 0; rank != nets.size(); ++rank) save(all[rank], own[rank]);
  CHECK_THROWS_WITH(load(all[1], own[0]), ContainsSubstring("is the part of rank 0 of " + std::to_string(world)));
  CHECK_THROWS_WITH(load(optimizer, own[0]), ContainsSubstring("is the part of rank 0 of " + std::to_string(world)));

  // Gathered it is the state of one process, to the bit.
  for (auto& one : all) one.gather_state(true);
  ranks.meet();
  fulgurite::ArchiveNode whole, of_one;
  save(all[0], whole);
  save(optimizer, of_one);
  CHECK(fulgurite::to_text(whole) == fulgurite::to_text(of_one));
  for (auto& one : all) one.drop_gathered();

  // What goes on from it goes on with the same bits: parts, and one process.
  for (auto& one : all)
    for (auto const& buffer : one.parameters().arena().buffers())
      for (auto const& state : buffer.states)
        if (state.defined()) state.fill_(7);
  for (auto& one : all) load(one, whole);
  load(optimizer, whole);
  steps(5, 7);
  for (std::size_t rank = 0; rank != nets.size(); ++rank) save(all[rank], own[rank] = {});
  auto const before = fulgurite::to_text(own[1]);
  for (auto const& buffer : all[1].parameters().arena().buffers())
    for (auto const& state : buffer.states)
      if (state.defined()) state.fill_(7);
  load(all[1], own[1]);
  save(all[1], own[0] = {});
  CHECK(fulgurite::to_text(own[0]) == before);
  steps(7, 9);
}
}  // namespace

TEST_CASE("processes that keep a part of the state each take the steps of one that keeps all", "[arena][state]") {
  for (auto const& [world, before] : {std::pair(2, 0), std::pair(3, 2)}) {
    check_parts(world, before,
                [](Wide& net) { return ours::SGD(net, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}); });
    check_parts(world, before, [](Wide& net) { return ours::Adam(net, {.lr = 0.01, .amsgrad = true}); });
    check_parts(world, before, [](Wide& net) { return ours::AdamW(net, {.lr = 0.01}); });
    check_parts(world, before,
                [](Wide& net) { return ours::Adagrad(net, {.lr = 0.01, .initial_accumulator_value = 0.5}); });
  }
}
