// Members of a sweep on LibTorch: the bits of each are those that it has alone, though they train beside one another.
#include "fixtures.hpp"

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;

namespace {

struct Setting {
  double rate = 0.01;
  long width = 8;
};

/// Draws in many ways: weights, dropout, noise, an order, a choice.
struct Net : torch::nn::Module {
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<val_loss>;
  Setting setting;
  torch::nn::Linear first, last;
  explicit Net(Setting const& s)
      : setting(s),
        first(register_module("first", torch::nn::Linear(6, s.width))),
        last(register_module("last", torch::nn::Linear(s.width, 3))) {}
  torch::Tensor forward(torch::Tensor const& x) {
    return last->forward(
        F::dropout(torch::relu(first->forward(x)), F::DropoutFuncOptions().p(0.4).training(is_training())));
  }
  torch::Tensor training_step(data::Batch const& batch) {
    auto const noise = torch::randn({batch.data.size(0), 6}, batch.data.options()) * 0.1 + torch::rand_like(batch.data);
    return F::cross_entropy(forward(batch.data + noise), batch.target);
  }
  void validation_step(data::Batch const& batch, auto& ctx) {
    ctx.log(val_loss, F::cross_entropy(forward(batch.data), batch.target));
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = setting.rate}); }
};

data::TensorLoader<> loader(bool shuffle) {
  auto generator = at::detail::createCPUGenerator(3);
  auto const x = torch::randn({40, 6}, generator);
  return {x, torch::randint(0, 3, {40}, generator, torch::kLong), {.batch_size = 8, .shuffle = shuffle, .seed = 4}};
}

template <class Strategy>
auto maker(Strategy strategy, TrainerOptions options = {.max_epochs = 3}) {
  return [=, train = loader(true), val = loader(false)](Setting const& setting, auto probe) {
    return tune::Member{Net(setting), make_trainer<Net>(options, strategy, Float32{}, Automatic{}, probe, NoDefaults{}),
                        train, val};
  };
}

auto settings() { return tune::grid(tune::values<&Setting::rate>(0.01, 0.05), tune::values<&Setting::width>(8, 16)); }

std::vector<torch::Tensor> weights(torch::nn::Module const& model) {
  std::vector<torch::Tensor> all;
  for (auto const& p : model.parameters()) all.push_back(p.detach().clone());
  return all;
}
bool same(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i != a.size(); ++i) equal = fixtures::same_bits(a[i], b[i]);
  return equal;
}

/// Keeps the weights as they are when training ends.
struct Keeps {
  using Stateless = ByChoice;
  std::vector<torch::Tensor>* into;
  void on_train_end(auto& ctx) { *into = weights(ctx.model()); }
};

/// What is left of each member, in the order of the space: a member that ends puts its weights there.
template <class Make>
auto with_weights_into(std::vector<std::vector<torch::Tensor>>& all, Make make) {
  return [&all, make](Setting const& setting, auto probe) {
    return tune::Member{Net(setting),
                        make_trainer<Net>(TrainerOptions{.max_epochs = 3}, make, Float32{}, Automatic{}, probe,
                                          Keeps{.into = &all[probe.member()]}, NoDefaults{}),
                        loader(true), loader(false)};
  };
}

template <class Strategy>
void compare_with_alone(Strategy strategy) {
  auto const space = settings();
  std::vector<std::vector<torch::Tensor>> beside(4), alone(4);
  auto const results = tune::sweep(with_weights_into(beside, strategy), space, Net::val_loss,
                                   {.mode = Mode::min, .threads = 2, .seed = 9});
  fixtures::Threads const one_thread(1);
  for (std::size_t i = 0; i != 4; ++i) {
    torch::manual_seed(9);
    std::vector<std::vector<torch::Tensor>> one(1);
    auto member = with_weights_into(one, strategy)(space.settings[i], tune::Probe{Net::val_loss});
    member.fit();
    CAPTURE(i);
    CHECK(same(beside[i], weights(member.model)));
    CHECK(same(one[0], weights(member.model)));
    for (auto const& row : results.rows())
      if (row.member == i) CHECK(row.value == member.trainer.value(Net::val_loss));
    alone[i] = std::move(one[0]);
  }
  CHECK_FALSE(same(alone[0], alone[1]));
  CHECK_FALSE(same(alone[0], alone[2]));
  CHECK(same(weights(results.model()), alone[results.best().member]));
}

std::string refused(auto&& f) {
  try {
    f();
  } catch (Error const& error) { return std::string(error.identifier()); }
  return "";
}

}  // namespace

TEST_CASE("4 members on 2 threads, with shuffle and dropout: each has the bits that it has alone", "[sweep]") {
  compare_with_alone(SingleDevice{cpu});
}

TEST_CASE("the same with captured steps, which replay what they drew from", "[sweep][capture]") {
  compare_with_alone(Captured{SingleDevice{cpu}});
  auto results =
      tune::sweep(maker(Captured{SingleDevice{cpu}}), settings(), Net::val_loss, {.mode = Mode::min, .threads = 2});
  CHECK(results.trainer().strategy().report()->replayed > 5);
  CHECK(results.trainer().warnings().empty());
}

TEST_CASE("members that wait for one another at rungs have the bits of members that do not", "[sweep]") {
  std::vector<std::vector<torch::Tensor>> plain(4), waiting(4);
  auto const space = settings();
  tune::sweep(with_weights_into(plain, SingleDevice{cpu}), space, Net::val_loss, {.mode = Mode::min, .threads = 2});
  auto const results = tune::sweep(with_weights_into(waiting, SingleDevice{cpu}), space, Net::val_loss,
                                   {.mode = Mode::min, .rungs = {1, 2}, .keep = 0.5, .threads = 2});
  REQUIRE(results.rows()[0].epochs() == 3);
  CHECK(results.rows()[1].epochs() == 2);
  CHECK(results.rows()[2].epochs() == 1);
  CHECK(results.rows()[3].epochs() == 1);
  auto const best = results.best().member;
  CHECK(same(waiting[best], plain[best]));
}

TEST_CASE("a sweep leaves the generator and the threads of the process as they were", "[sweep]") {
  torch::manual_seed(5);
  auto const next = torch::rand({4});
  int const threads = torch::get_num_threads();
  torch::manual_seed(5);
  tune::sweep(maker(SingleDevice{cpu}), settings(), Net::val_loss, {.mode = Mode::min, .threads = 2});
  CHECK(fixtures::same_bits(torch::rand({4}), next));
  CHECK(torch::get_num_threads() == threads);
  int of_new_thread = 0;
  std::thread([&] { of_new_thread = torch::get_num_threads(); }).join();
  CHECK(of_new_thread == threads);
}

TEST_CASE("every operator that draws draws from the thread's generator", "[sweep]") {
  auto const draws = [] {
    auto const half = torch::full({50}, 0.5), two = torch::full({50}, 2.0);
    auto order = torch::empty({9}, torch::kLong);
    auto const matrix = torch::full({4, 4}, 0.25);
    return std::vector<torch::Tensor>{torch::rand({5}),
                                      torch::randn({5}),
                                      torch::randint(0, 99, {5}),
                                      torch::randperm(9),
                                      torch::randperm_out(order, 9).clone(),
                                      torch::rand_like(half),
                                      torch::randn_like(half),
                                      torch::randint_like(half, 100),
                                      torch::bernoulli(half),
                                      half.bernoulli(0.3),
                                      at::normal(half, two),
                                      at::normal(0.0, two),
                                      at::normal(half, 1.0),
                                      torch::normal(0.0, 1.0, {5}),
                                      torch::poisson(two),
                                      torch::binomial(two, half),
                                      torch::multinomial(matrix, 2),
                                      torch::multinomial(matrix, 7, true),
                                      at::_standard_gamma(two),
                                      at::_sample_dirichlet(matrix),
                                      half.clone().exponential_(),
                                      half.clone().geometric_(0.3),
                                      half.clone().cauchy_(),
                                      half.clone().log_normal_(),
                                      half.clone().uniform_(),
                                      half.clone().random_(),
                                      torch::dropout(half, 0.5, true),
                                      std::get<0>(torch::native_dropout(half, 0.5, true)),
                                      torch::alpha_dropout(half, 0.5, true),
                                      torch::feature_dropout(half.view({5, 10}), 0.5, true),
                                      torch::rrelu(-half, 0.1, 0.9, true),
                                      torch::nn::init::xavier_uniform_(torch::empty({3, 3})),
                                      at::scaled_dot_product_attention(torch::ones({1, 2, 4, 4}),
                                                                       torch::ones({1, 2, 4, 4}),
                                                                       torch::ones({1, 2, 4, 4}), {}, 0.5)};
  };
  torch::manual_seed(21);
  auto const expected = draws();
  libtorch::Apart const apart;
  torch::manual_seed(1);
  libtorch::Apart const after_seeding;
  std::vector<torch::Tensor> drawn;
  std::thread([&] {
    auto const own = after_seeding.thread(21);
    drawn = draws();
  }).join();
  REQUIRE(drawn.size() == expected.size());
  for (std::size_t i = 0; i != drawn.size(); ++i) {
    CAPTURE(i);
    CHECK(fixtures::same_bits(drawn[i], expected[i]));
  }
  CHECK(apart.disturbed());  // by the seed above
  CHECK_FALSE(after_seeding.disturbed());
}

TEST_CASE("a member that goes around its own random numbers ends the sweep, with an Error", "[sweep]") {
  auto const make = maker(SingleDevice{cpu});
  auto const sweep = [&](auto const& how) {
    tune::sweep(how, settings(), Net::val_loss, {.mode = Mode::min, .threads = 2});
  };
  torch::manual_seed(1);
  CHECK(refused([&] {
          sweep([&](Setting const& setting, auto probe) {
            torch::manual_seed(7);
            return make(setting, probe);
          });
        }) == "fulgurite.tune.process_random");
  CHECK(refused([&] {
          sweep([&](Setting const& setting, auto probe) {
            std::thread([] { torch::rand({2}); }).join();
            return make(setting, probe);
          });
        }) == "fulgurite.tune.process_random");
  CHECK(refused([&] { sweep(make); }).empty());
}

TEST_CASE("where somebody else stands before LibTorch's operators, that is an Error", "[sweep]") {
  CHECK(refused([] { libtorch::Apart const apart(false); }) == "fulgurite.random.apart");
}

TEST_CASE("a mixed precision is refused on several threads, and trains on one", "[sweep][precision]") {
  auto const make = [](Setting const& setting, auto probe) {
    return tune::Member{Net(setting),
                        make_trainer<Net>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Bf16Mixed{}, Automatic{},
                                          probe, NoDefaults{}),
                        loader(true), loader(false)};
  };
  CHECK(refused([&] { tune::sweep(make, settings(), Net::val_loss, {.mode = Mode::min, .threads = 2}); }) ==
        "fulgurite.tune.autocast");
  CHECK(tune::sweep(make, settings(), Net::val_loss, {.mode = Mode::min, .threads = 1}).rows().size() == 4);
}

TEST_CASE("LibTorch's errors in a step are a row, and so is a loss that is no number", "[sweep]") {
  auto const results = tune::sweep(
      [](Setting setting, auto probe) {
        if (setting.width == 16) setting.rate = 1e30;  // the next loss is not finite
        Net net(setting);
        if (setting.width == 24) net.last = torch::nn::Linear(2, 3);
        return tune::Member{std::move(net),
                            make_trainer<Net>(TrainerOptions{.max_epochs = 2}, SingleDevice{cpu}, Float32{},
                                              Automatic{}, probe, NoDefaults{}),
                            loader(true), loader(false)};
      },
      tune::grid(tune::values<&Setting::width>(16, 8, 24)), Net::val_loss, {.mode = Mode::min, .threads = 2});
  CHECK(results.best().member == 1);
  REQUIRE(results.rows().size() == 3);
  CHECK(results.rows()[1].fate == tune::Fate::failed);
  CHECK(results.rows()[1].why.find("finite") != std::string::npos);
  CHECK(results.rows()[2].fate == tune::Fate::failed);
  CHECK(results.rows()[2].why.find("mat1 and mat2") != std::string::npos);
}

TEST_CASE("a copy of a loader that was read already has batches of its own", "[sweep][data]") {
  auto first = loader(false);
  auto at = first.begin();
  auto const kept = (*at).data.clone();
  auto second = first;
  auto other = second.begin();
  ++other;
  ++other;
  ++other;
  CHECK(fixtures::same_bits((*at).data, kept));
}
