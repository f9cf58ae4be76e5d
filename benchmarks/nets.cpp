// The nets and the data of the workloads. Compiled once; the loops see `Net`.

#include "nets.hpp"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <fulgurite/torch/data/mnist.hpp>

#include "net_zoo.hpp"

namespace bench {

namespace {

std::vector<Batch> classes(std::vector<std::int64_t> const& shape, std::int64_t count, int batches = 32) {
  torch::manual_seed(2);
  std::vector<Batch> all;
  for (int i = 0; i != batches; ++i)
    all.push_back({torch::randn(shape), torch::randint(count, {shape[0]}, torch::kLong)});
  return all;
}

/// Three linear layers. W1: 32-32-32-2. W2: 784-128-128-10.
struct Mlp : Net {
  nn::Linear one, two, three;
  Mlp(long in, long hidden, long out)
      : one(register_module("one", nn::Linear(in, hidden))),
        two(register_module("two", nn::Linear(hidden, hidden))),
        three(register_module("three", nn::Linear(hidden, out))) {}
  torch::Tensor loss(Batch const& b) override {
    return F::cross_entropy(three(torch::relu(two(torch::relu(one(b.data))))), b.target);
  }
};

/// 64-64-64-10 with dropout behind both hidden layers.
struct DropoutMlp : Mlp {
  nn::Dropout drop = register_module("drop", nn::Dropout(0.5));
  DropoutMlp() : Mlp(64, 64, 10) {}
  torch::Tensor loss(Batch const& b) override {
    return F::cross_entropy(three(drop(torch::relu(two(drop(torch::relu(one(b.data))))))), b.target);
  }
};

/// W2: the classic two-convolution net of MNIST without its dropout.
struct MnistCnn : Net {
  nn::Conv2d one = register_module("one", nn::Conv2d(1, 16, 3)), two = register_module("two", nn::Conv2d(16, 32, 3));
  nn::Linear three = register_module("three", nn::Linear(32 * 5 * 5, 64)),
             four = register_module("four", nn::Linear(64, 10));
  torch::Tensor loss(Batch const& b) override {
    auto x = torch::max_pool2d(torch::relu(one(b.data)), 2);
    x = torch::max_pool2d(torch::relu(two(x)), 2);
    return F::cross_entropy(four(torch::relu(three(x.flatten(1)))), b.target);
  }
};

/// W5: the LSTM on separate sequences of 10 steps of time.
struct Lstm : Net {
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(10, 20).batch_first(true)));
  nn::Linear out = register_module("out", nn::Linear(20, 2));
  torch::Tensor loss(Batch const& b) override {
    return F::cross_entropy(out(std::get<0>(lstm(b.data)).select(1, -1)), b.target);
  }
};

/// W7.
struct Regression : Net {
  nn::Linear line = register_module("line", nn::Linear(1, 1));
  torch::Tensor loss(Batch const& b) override { return F::mse_loss(line(b.data), b.target); }
};
std::vector<Batch> points() {
  torch::manual_seed(2);
  std::vector<Batch> batches;
  for (int i = 0; i != 32; ++i) {
    auto const x = torch::randn({1, 1});
    batches.push_back({x, 2 * x + 1});
  }
  return batches;
}

template <class N, auto... Sizes>
std::shared_ptr<Net> seeded() {
  torch::manual_seed(1);
  return std::make_shared<N>(Sizes...);
}

}  // namespace

std::vector<NetWorkload> const& net_workloads() {
  static std::vector<NetWorkload> const all{
      {"tiny-mlp-sgd", Rule::sgd, seeded<Mlp, 32, 32, 2>, [] { return classes({8, 32}, 2); }},
      {"tiny-mlp-adam", Rule::adam, seeded<Mlp, 32, 32, 2>, [] { return classes({8, 32}, 2); }},
      {"mlp-dropout-adam", Rule::adam, seeded<DropoutMlp>, [] { return classes({32, 64}, 10); }},
      {"mnist-mlp-16-adam", Rule::adam, seeded<Mlp, 784, 128, 10>, [] { return classes({16, 784}, 10); }},
      {"mnist-mlp-sgd", Rule::sgd, seeded<Mlp, 784, 128, 10>, [] { return classes({64, 784}, 10); }},
      {"mnist-mlp-adam", Rule::adam, seeded<Mlp, 784, 128, 10>, [] { return classes({64, 784}, 10); }},
      {"mnist-cnn-adam", Rule::adam, seeded<MnistCnn>, [] { return classes({16, 1, 28, 28}, 10); }},
      {"lstm-adam", Rule::adam, seeded<Lstm>, [] { return classes({8, 10, 10}, 2); }},
      {"char-gpt-adam", Rule::adam, seeded<CharGpt>, CharGpt::batches},
      {"resnet18-sgd", Rule::sgd, seeded<ResNet18>, [] { return classes({8, 3, 32, 32}, 10, 8); }},
      {"regression-sgd", Rule::sgd, seeded<Regression>, points}};
  return all;
}

std::string bits_of(nn::Module const& net) {
  std::string all;
  auto const add = [&](torch::Tensor const& tensor) {
    auto const flat = tensor.detach().contiguous();
    all.append(static_cast<char const*>(flat.data_ptr()), flat.nbytes());
  };
  for (auto const& parameter : net.parameters()) add(parameter);
  for (auto const& buffer : net.buffers()) add(buffer);
  return all;
}

namespace {

/// state(parameter's state) gives the tensors that an optimizer keeps of it.
template <class State>
void keep_each(Moments& moments, torch::optim::Optimizer const& optimizer, std::size_t count, auto tensors) {
  for (auto const& group : optimizer.param_groups())
    for (auto const& parameter : group.params()) {
      auto const found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) moments.insert(moments.end(), count, torch::zeros_like(parameter));
      else
        for (auto const& tensor : tensors(static_cast<State const&>(*found->second))) moments.push_back(tensor);
    }
}

}  // namespace

void keep(Moments& moments, torch::optim::SGD const& optimizer) {
  keep_each<torch::optim::SGDParamState>(moments, optimizer, 1,
                                         [](auto const& state) { return std::vector{state.momentum_buffer()}; });
}
void keep(Moments& moments, torch::optim::Adam const& optimizer) {
  keep_each<torch::optim::AdamParamState>(
      moments, optimizer, 2, [](auto const& state) { return std::vector{state.exp_avg(), state.exp_avg_sq()}; });
}

std::string bits_of_run(Moments const& moments) {
  std::uint64_t all = 0xcbf29ce484222325U;
  auto const add = [&](torch::Tensor const& tensor) {
    auto const flat = tensor.detach().contiguous();
    auto const* from = static_cast<char const*>(flat.data_ptr());
    for (std::size_t left = flat.nbytes(), word = 0; left != 0; left -= word) {
      std::uint64_t bytes = 0;
      word = std::min(left, sizeof bytes);
      std::memcpy(&bytes, from + (flat.nbytes() - left), word);
      all = std::rotl((all ^ bytes) * 0x9e3779b97f4a7c15U, 29);
    }
  };
  for (auto const& moment : moments) add(moment);
  add(at::detail::getDefaultCPUGenerator().get_state());
  return {reinterpret_cast<char const*>(&all), sizeof all};
}

Sequence::Sequence() {
  torch::manual_seed(1);
  lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(10, 20).batch_first(true)));
  out = register_module("out", nn::Linear(20, 2));
}
Sequence::Output Sequence::step(Batch const& part, std::optional<Hidden> const& hidden) {
  auto [features, next] = lstm(part.data, hidden);
  return {F::cross_entropy(out(features).flatten(0, 1), part.target.flatten()), std::move(next)};
}
std::vector<Batch> sequences() {
  torch::manual_seed(2);
  std::vector<Batch> all;
  for (int i = 0; i != 8; ++i)
    all.push_back({torch::randn({8, Sequence::time, 10}), torch::randint(2, {8, Sequence::time}, torch::kLong)});
  return all;
}

Gan::Gan() {
  torch::manual_seed(1);
  g1 = register_module("g1", nn::Linear(latent, 128));
  g2 = register_module("g2", nn::Linear(128, 784));
  d1 = register_module("d1", nn::Linear(784, 128));
  d2 = register_module("d2", nn::Linear(128, 1));
}
torch::Tensor Gan::draw(long count) { return torch::sigmoid(g2(torch::relu(g1(torch::randn({count, latent}))))); }
torch::Tensor Gan::judged(torch::Tensor const& images, double truth) {
  auto const verdict = d2(torch::leaky_relu(d1(images), 0.2));
  return torch::binary_cross_entropy_with_logits(verdict, torch::full_like(verdict, truth));
}
std::vector<torch::Tensor> Gan::generator() const { return {g1->weight, g1->bias, g2->weight, g2->bias}; }
std::vector<torch::Tensor> Gan::discriminator() const { return {d1->weight, d1->bias, d2->weight, d2->bias}; }
std::vector<Batch> real_images() {
  torch::manual_seed(2);
  std::vector<Batch> all;
  for (int i = 0; i != 16; ++i) all.push_back({torch::rand({64, 784}), torch::Tensor(torch::zeros({64}))});
  return all;
}

Digits const& digits() {
  static Digits const found = [] {
    using namespace fulgurite;
    std::vector<std::filesystem::path> places{"data/mnist", "../shared/data/mnist"};
    if (char const* named = std::getenv("FULGURITE_DATA")) places.insert(places.begin(), named);
    auto const folder = data::find_mnist(places);
    auto files = folder ? data::mnist_files(*folder, "train") : std::nullopt;
    if (folder && !files) files = data::mnist_files(*folder, "t10k");
    auto const set = data::as_tensors(files ? data::read_mnist(*files) : data::draw_digits(10000, 0));
    return Digits{set.data.flatten(1), set.target,
                  std::to_string(set.size()) + (files ? " images of MNIST, " + files->images.filename().string()
                                                      : " drawn digits: no files of MNIST")};
  }();
  return found;
}
std::shared_ptr<Net> loader_net() { return seeded<Mlp, 784, 128, 10>(); }

char const* prepare_libtorch(int threads) {
  at::set_num_threads(threads);
  return TORCH_VERSION;
}

}  // namespace bench
