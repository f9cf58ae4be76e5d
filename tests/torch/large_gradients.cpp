// Gradients that do not fit into the cache: they are looked at as soon as backward has made them, and stay where it
// made them, with the bits of gradients that are added to a flat buffer.
#include "fixtures.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/optim/clip.hpp>

using namespace fulgurite;
using fixtures::same_bits;
using libtorch::GradientLooks;

namespace {

/// 4.5 MB in one weight, whose gradient is the data times the target.
template <class Optimizer>
struct Wide : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(1024, 1100));
  torch::Tensor training_step(data::Batch const& batch) { return (layer->forward(batch.data) * batch.target).sum(); }
  auto configure_optimizers() {
    if constexpr (std::is_same_v<Optimizer, optim::SGD>) return optim::SGD(*this, {.lr = 0.01, .momentum = 0.9});
    else return Optimizer(this->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  }
};
using Ours = Wide<optim::SGD>;
using Theirs = Wide<torch::optim::SGD>;

template <class Model>
Model fresh() {
  torch::manual_seed(2);
  return Model{};
}

/// In batch `bad` the loss is finite and one number of the gradient is not.
std::vector<data::Batch> batches(int n, int bad = -1) {
  auto generator = at::detail::createCPUGenerator(7);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i)
    all.push_back({torch::randn({2, 1024}, generator) * 0.01, torch::randn({2, 1100}, generator) * 0.01});
  if (bad >= 0) {
    auto& [data, target] = all[static_cast<std::size_t>(bad)];
    data.zero_();
    target.zero_();
    data[1][1000] = 1e30;
    target[1][1000] = 1e9;
  }
  return all;
}

bool same(torch::nn::Module& a, torch::nn::Module& b) {
  auto const left = a.parameters(), right = b.parameters();
  for (std::size_t i = 0; i != left.size(); ++i)
    if (!same_bits(left[i], right[i])) return false;
  return true;
}

/// What is known of the large gradient when a step is over: nothing, or whether it is finite.
struct Asks {
  using Stateless = ByChoice;
  torch::Tensor weight;
  std::vector<int>* known;
  void on_train_batch_end() {
    auto const seen = GradientLooks::seen_of(weight);
    if (!seen) return known->push_back(-2);
    auto const finite = seen->finite(weight.grad());
    known->push_back(finite ? int(*finite) : -1);
  }
};
/// Whether the large gradient lies in a buffer with others.
struct Whereabouts {
  using Stateless = ByChoice;
  torch::Tensor weight;
  std::vector<bool>* in_buffer;
  void on_train_batch_end() { in_buffer->push_back(weight.grad().storage().nbytes() > weight.nbytes()); }
};
struct Meddles {
  using Stateless = ByChoice;
  void on_after_backward() {}
};

template <class Model, class Strategy, class... More>
std::string fit(Model& model, Strategy strategy, std::vector<data::Batch> const& train, std::vector<int>& known,
                Automatic how = {}, More... more) {
  // No thread of OpenMP takes part in a product: its barriers are not known to the thread sanitizer.
  fixtures::Threads const alone(1);
  auto trainer = make_trainer<Model>({.max_epochs = 1}, strategy, Float32{}, how,
                                     Asks{.weight = model.layer->weight, .known = &known}, more..., NoDefaults{});
  try {
    trainer.fit(model, train, NoValidation{});
  } catch (Error const& error) { return error.what(); }
  return trainer.warnings().empty() ? "" : trainer.warnings().front();
}

bool all_are(std::vector<int> const& all, int value) {
  for (int const one : all)
    if (one != value) return false;
  return !all.empty();
}

template <class Model, class Strategy>
void check_found(Strategy strategy, int bad) {
  auto model = fresh<Model>(), good = fresh<Model>();
  std::vector<int> known, other;
  auto const said = fit(model, strategy, batches(bad + 3, bad), known);
  CHECK(said.starts_with("[fulgurite.loop.non_finite] a gradient is not finite (the loss is"));
  CHECK(said.find("after batch " + std::to_string(bad) + " of epoch 0. ") != std::string::npos);
  CHECK(known.size() == static_cast<std::size_t>(bad));
  CHECK(all_are(known, 1));  // looked at before anybody asked for the update
  CHECK(fit(good, SingleDevice{cpu}, batches(bad), other).empty());
  CHECK(same(model, good));
  CHECK(GradientLooks::seen_of(model.layer->weight) == nullptr);
}

}  // namespace

TEST_CASE("a range is cut into at most as many parts as there are threads, without gaps") {
  fixtures::skip_under_thread_sanitizer();
  auto const parts_of = [](std::int64_t n, int threads) {
    fixtures::Threads const some(threads);
    std::mutex lock;
    std::map<std::int64_t, std::int64_t> parts;
    std::set<std::thread::id> workers;
    libtorch::in_parts(n, [&](std::int64_t begin, std::int64_t end) {
      std::lock_guard const held(lock);
      parts[begin] = end;
      workers.insert(std::this_thread::get_id());
    });
    CHECK(workers.size() == parts.size());
    return parts;
  };
  using Parts = std::map<std::int64_t, std::int64_t>;
  CHECK(parts_of(0, 3) == Parts{{0, 0}});
  CHECK(parts_of(32768, 3) == Parts{{0, 32768}});
  CHECK(parts_of(32769, 3) == Parts{{0, 17408}, {17408, 32769}});
  CHECK(parts_of(100003, 3) == Parts{{0, 33792}, {33792, 67584}, {67584, 100003}});
  CHECK(parts_of(100003, 1) == Parts{{0, 100003}});
}

TEST_CASE("several threads update a long range in parts, with the bits of torch::optim") {
  fixtures::skip_under_thread_sanitizer();
  fixtures::Threads const some(3);
  auto const check = [](at::ScalarType type, bool leaves, auto const& by_torch, auto const& by_ours) {
    CAPTURE(type, leaves);
    auto const parameters = [&] {
      torch::manual_seed(6);
      return std::vector{torch::randn({300003}, type).requires_grad_(), torch::randn({70, 70}, type).requires_grad_()};
    };
    auto raw = parameters(), flat = parameters();
    auto theirs = by_torch(raw);
    auto ours = by_ours(flat);
    ours.parameters().arena().leave_gradients(leaves);
    for (int step = 0; step != 10; ++step) {
      theirs.zero_grad();
      ours.zero_grad();
      for (std::size_t i = 0; i != raw.size(); ++i)
        for (auto const& one : {raw[i], flat[i]}) (one * one).sum().backward();
      theirs.step();
      ours.step();
      for (std::size_t i = 0; i != raw.size(); ++i) CHECK(same_bits(raw[i], flat[i]));
    }
  };
  for (auto const type : {at::kFloat, at::kDouble})
    for (bool const leaves : {false, true}) {  // gradients where backward has made them
      check(
          type, leaves, [](auto& all) { return torch::optim::SGD(all, torch::optim::SGDOptions(0.01).momentum(0.9)); },
          [](auto& all) { return optim::SGD(all, {.lr = 0.01, .momentum = 0.9}); });
      check(
          type, leaves,
          [](auto& all) { return torch::optim::Adam(all, torch::optim::AdamOptions(0.01).amsgrad(true)); },
          [](auto& all) { return optim::Adam(all, {.lr = 0.01, .amsgrad = true}); });
    }
}

TEST_CASE("several threads that look at a long tensor see one number that is not finite, wherever it is") {
  fixtures::skip_under_thread_sanitizer();
  fixtures::Threads const some(3);
  for (auto const type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    for (std::int64_t const place : {0, 33791, 33792, 50000, 67584, 100002}) {
      INFO(type << " at " << place);
      auto const all = torch::ones({100003}, type);
      CHECK(libtorch::all_finite(all));
      all[place] = std::numeric_limits<double>::infinity();
      CHECK_FALSE(libtorch::all_finite(all));
    }
}

TEST_CASE("a large gradient that is not finite is found where backward makes it, and nothing is updated",
          "[nonfinite]") {
  check_found<Ours>(SingleDevice{cpu}, 4);
  check_found<Theirs>(SingleDevice{cpu}, 4);
}
TEST_CASE("so it is in a replay, whose tape looks behind the last write", "[nonfinite][capture]") {
  check_found<Ours>(Captured{SingleDevice{cpu}}, 20);
}

TEST_CASE("who could change a gradient after backward is waited for; a norm tells of all", "[nonfinite]") {
  std::vector<int> known;
  auto model = fresh<Ours>();
  CHECK(fit(model, SingleDevice{cpu}, batches(3), known, {}, Meddles{}).empty());
  CHECK(all_are(known, -2));
  known.clear();
  CHECK(fit(model, SingleDevice{cpu}, batches(3), known, Automatic{.clip = ClipNorm{1.0}}).empty());
  CHECK(all_are(known, -2));
  known.clear();
  CHECK(fit(model, SingleDevice{cpu}, batches(4), known, Automatic{.accumulate_grad_batches = 2}).empty());
  CHECK(known == std::vector{-1, 1, -1, 1});  // only the last batch of a window makes the gradient of an update
}

TEST_CASE("what was seen of a gradient is forgotten when it is written to, and with the next step", "[nonfinite]") {
  auto model = fresh<Ours>();
  GradientLooks looks;
  looks.attach(model);
  REQUIRE(looks);
  auto const& weight = model.layer->weight;
  auto const backward = [&](bool look) {
    looks->begin(look);
    model.zero_grad();
    model.training_step(batches(1).front()).backward();
  };
  backward(true);
  CHECK(looks->finite(weight.grad()) == true);
  CHECK(looks->finite(model.layer->bias.grad()) == std::nullopt);  // small: it is looked at when it is needed
  CHECK(libtorch::gradients_finite(model.parameters(), *looks));
  weight.grad().view(-1)[5] = std::numeric_limits<float>::infinity();
  CHECK(looks->finite(weight.grad()) == std::nullopt);
  CHECK_FALSE(libtorch::gradients_finite(model.parameters(), *looks));
  model.layer->bias.grad()[7] = std::nanf("");
  weight.grad().zero_();
  CHECK_FALSE(libtorch::gradients_finite(model.parameters(), *looks));
  backward(false);
  CHECK(looks->empty());
  looks.detach();
  CHECK(GradientLooks::seen_of(weight) == nullptr);
}

namespace {

/// Parameters that may stay away from the buffer, of which one keeps a gap behind it and one is small; the gradient of
/// the first has zeros of both signs.
std::vector<torch::Tensor> parameters(at::ScalarType type) {
  torch::manual_seed(5);
  std::vector<torch::Tensor> all;
  for (auto const& sizes : std::vector<std::vector<std::int64_t>>{{256, 128}, {33, 1001}, {7}, {128, 256}})
    all.push_back(torch::randn(sizes, type).requires_grad_());
  return all;
}
void backward(std::vector<torch::Tensor> const& all, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + step));
  auto sum = torch::zeros({}, all[0].options().requires_grad(false));
  for (std::size_t i = 0; i != all.size(); ++i) {
    auto const factor = torch::randn_like(all[i]).detach();
    if (i == 0) factor.mul_(torch::rand_like(factor) < 0.5);
    if (i != 3 || step % 3 != 1) sum = sum + (all[i] * factor).sum();
  }
  sum.backward();
}

template <class Optimizer, class Options>
void check_same_bits(Options const& options, at::ScalarType type, int clip) {
  auto flat = parameters(type), apart = parameters(type);
  Optimizer one(flat, options), other(apart, options);
  other.parameters().arena().leave_gradients(true);
  auto const& slots = other.parameters().arena().slots();
  auto const stays = [&](std::size_t i) {
    return apart[i].grad().defined() && !apart[i].grad().is_same(slots[i].gradient);
  };
  for (int step = 0; step != 12; ++step) {
    for (auto* optimizer : {&one, &other}) {
      if (step % 4 != 2) optimizer->zero_grad();  // else the gradient is added to that of the step before
      backward(optimizer == &one ? flat : apart, step);
    }
    if (step == 7)
      for (auto* all : {&flat, &apart}) (*all)[0].mutable_grad() = torch::ones({256, 128}, type);
    CHECK(one.gradients_finite() == other.gradients_finite());
    if (clip == 0 && step != 10) CHECK(stays(0));
    CHECK_FALSE(stays(1));
    CHECK_FALSE(stays(2));
    CHECK(apart[3].grad().defined() == (step % 3 != 1 || step % 4 == 2));
    if (clip == 1)
      CHECK(same_bits(LibTorch::clip_norm(one.parameters(), 0.5), LibTorch::clip_norm(other.parameters(), 0.5)));
    if (clip == 2) {
      LibTorch::clip_value(one.parameters(), 0.3);
      LibTorch::clip_value(other.parameters(), 0.3);
    }
    if (step == 9) other.parameters().arena().leave_gradients(false);
    if (step == 10) other.parameters().arena().leave_gradients(true);
    one.step();
    other.step();
    for (std::size_t i = 0; i != flat.size(); ++i) {
      INFO("step " << step << ", parameter " << i);
      CHECK(same_bits(flat[i], apart[i]));
    }
  }
  auto const& as_flat = one.parameters().arena().slots();
  for (std::size_t i = 0; i != flat.size(); ++i)
    for (std::size_t s = 0; s != slots[i].states.size(); ++s)
      if (slots[i].states[s].defined()) CHECK(same_bits(as_flat[i].states[s], slots[i].states[s]));
}

}  // namespace

TEST_CASE("large gradients stay where backward makes them, and weights and moments have the same bits", "[arena]") {
  for (int const clip : {0, 1, 2})
    for (auto const type : {at::kFloat, at::kDouble}) {
      check_same_bits<optim::SGD>(optim::SGDOptions{.lr = 0.1}, type, clip);
      check_same_bits<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}, type, clip);
      check_same_bits<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
                                  type, clip);
      check_same_bits<optim::Adam>(optim::AdamOptions{.lr = 0.01, .weight_decay = 0.01, .amsgrad = true}, type, clip);
    }
}

TEST_CASE("a gradient that stays away and is not finite is found", "[arena][nonfinite]") {
  auto all = parameters(at::kFloat);
  optim::SGD optimizer(all, {.lr = 0.1});
  optimizer.parameters().arena().leave_gradients(true);
  optimizer.zero_grad();
  CHECK(optimizer.gradients_finite() == true);
  backward(all, 0);
  all[0].grad()[3][4] = std::numeric_limits<float>::infinity();
  CHECK(optimizer.gradients_finite() == false);
}

TEST_CASE("a fit that runs alone leaves large gradients where they are, unless somebody needs them in one piece",
          "[arena][capture]") {
  auto const lies = [](Ours& model, auto strategy, Automatic how = {}) {
    std::vector<int> known;
    std::vector<bool> in_buffer;
    CHECK(fit(model, strategy, batches(20), known, how,
              Whereabouts{.weight = model.layer->weight, .in_buffer = &in_buffer})
              .empty());
    REQUIRE(in_buffer.size() == 20);
    CHECK(in_buffer == std::vector<bool>(20, in_buffer[0]));
    return in_buffer[0] ? "in the buffer" : "apart";
  };
  using namespace std::string_literals;
  auto eager = fresh<Ours>(), captured = fresh<Ours>(), other = fresh<Ours>();
  CHECK(lies(eager, SingleDevice{cpu}) == "apart"s);
  CHECK(lies(captured, Captured{SingleDevice{cpu}}) == "in the buffer"s);
  CHECK(same(eager, captured));
  CHECK(lies(other, SingleDevice{cpu}, {.clip = ClipValue{1.0}}) == "in the buffer"s);
  CHECK(lies(other, SingleDevice{cpu}, {.accumulate_grad_batches = 2}) == "in the buffer"s);
}

namespace {
/// Backward makes both gradients as views of one tensor.
struct Twins : torch::nn::Module {
  torch::Tensor a = register_parameter("a", torch::ones({128, 256})),
                b = register_parameter("b", torch::ones({256, 128}));
  torch::Tensor training_step(torch::Tensor const& x) { return ((a.view(-1) + b.view(-1)) * x).sum(); }
  auto configure_optimizers() { return optim::SGD(*this, {.lr = 1.0}); }
};
}  // namespace

TEST_CASE("gradients that share their memory receive what each window adds once", "[arena]") {
  Twins model;
  auto trainer = make_trainer<Twins>({.max_epochs = 1}, SingleDevice{cpu}, Float32{},
                                     Automatic{.accumulate_grad_batches = 2}, NoDefaults{});
  trainer.fit(model, std::vector(2, torch::full({128 * 256}, 0.25)), NoValidation{});
  for (auto const& parameter : model.parameters()) CHECK(same_bits(parameter, torch::full_like(parameter, 0.75)));
}
