// Batches on their way to a GPU: pinned memory, workers that pin it while a step is recorded, a user's own loader.

#include "gpu.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

using namespace gpu;

namespace {

auto rows() {
  auto generator = at::detail::createCPUGenerator(4);
  return std::pair(torch::randn({90, 6}, generator), torch::randint(0, 3, {90}, generator, torch::kLong));
}
struct Rows {
  std::pair<torch::Tensor, torch::Tensor> all = rows();
  std::size_t size() const { return 90; }
  torch::data::Example<> get(std::size_t i) const {
    auto const at = static_cast<std::int64_t>(i);
    return {all.first[at], all.second[at]};
  }
};
template <class Strategy, class Loader>
std::vector<torch::Tensor> fitted(Strategy strategy, Loader loader) {
  auto model = fresh<Ours>();
  torch::manual_seed(5);
  auto trainer = make_trainer<Ours>({.max_epochs = 6}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, loader, NoValidation{});
  return fixtures::copied_weights(model);
}

/// A loader that makes batches as it goes, and writes each into the same memory.
struct Generated {
  using value_type = data::Batch;
  data::Batch now = {};
  long left = 0;
  torch::Tensor all = rows().first;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = data::Batch;
    Generated* of = nullptr;
    data::Batch& operator*() const { return of->now; }
    Iterator& operator++() {
      of->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return of->left < 0; }
  };
  void next() {
    if (--left < 0) return;
    auto const x = all.narrow(0, left * 9, 9);
    if (!now.data.defined()) now = {torch::empty({9, 6}), torch::empty({9}, torch::kLong)};
    now.data.copy_(x);
    now.target.copy_(x.sum(1).gt(0).to(torch::kLong));
  }
  Iterator begin() {
    left = 10;
    next();
    return {this};
  }
  std::default_sentinel_t end() { return {}; }
};

}  // namespace

TEST_CASE("batches in pinned memory, and data on the GPU, give the bits of batches in plain memory") {
  if (absent()) SKIP(none);
  auto const [x, y] = rows();
  auto const loader = [&](bool pin, torch::Tensor const& data, torch::Tensor const& target) {
    return data::TensorLoader{data, target, {.batch_size = 8, .shuffle = true, .seed = 2, .pin_memory = pin}};
  };
  auto const plain = fitted(SingleDevice{cuda}, loader(false, x, y));
  CHECK(same(fitted(SingleDevice{cuda}, loader(true, x, y)), plain));
  CHECK(same(fitted(SingleDevice{cuda}, loader(false, x.cuda(), y.cuda())), plain));
  CHECK(same(fitted(Captured{SingleDevice{cuda}}, loader(true, x, y)), plain));
  CHECK(same(fitted(Captured{SingleDevice{cuda}}, loader(false, x.cuda(), y.cuda())), plain));
  auto pinned = loader(true, x, y);
  for (auto const& batch : pinned) CHECK(batch.data.is_pinned());
  try {
    loader(true, x.cuda(), y.cuda());
    FAIL("data on a GPU cannot be pinned");
  } catch (Error const& error) { CHECK(error.identifier() == "fulgurite.data.pin_memory"); }
}

TEST_CASE("workers that pin memory, also while a step is recorded as a graph, give the bits of one thread") {
  if (absent()) SKIP(none);
  auto const loader = [](int workers, bool pin) {
    return data::Loader{
        Rows{}, {.batch_size = 8, .shuffle = true, .seed = 2, .workers = workers, .pin_memory = pin}, data::Stack{}};
  };
  auto const plain = fitted(SingleDevice{cuda}, loader(0, false));
  CHECK(same(fitted(SingleDevice{cuda}, loader(0, true)), plain));
  CHECK(same(fitted(SingleDevice{cuda}, loader(3, true)), plain));
  auto const [x, y] = rows();
  data::TensorLoader gathered{x, y, {.batch_size = 8, .shuffle = true, .seed = 2, .workers = 2, .pin_memory = true}};
  for (auto const& batch : gathered) CHECK(batch.data.is_pinned());
  CHECK(same(fitted(SingleDevice{cuda}, std::move(gathered)), plain));
  for (int i = 0; i != 4; ++i) {
    Captured captured{SingleDevice{cuda}};
    CHECK(same(fitted(captured, loader(3, true)), plain));
    CHECK(all_of(captured.report()->reasons).empty());
  }
}

TEST_CASE("a loader of the user's own, whose batches lie in one memory of the CPU, is moved batch by batch") {
  if (absent()) SKIP(none);
  std::vector<data::Batch> stored;
  Generated source;
  for (auto const& batch : source) stored.push_back({batch.data.clone(), batch.target.clone()});
  auto const plain = fitted(SingleDevice{cuda}, stored);
  CHECK(same(fitted(SingleDevice{cuda}, Generated{}), plain));
  CHECK(same(fitted(SingleDevice{automatic}, Generated{}), plain));
  CHECK(same(fitted(Captured{SingleDevice{cuda}}, Generated{}), plain));
}
