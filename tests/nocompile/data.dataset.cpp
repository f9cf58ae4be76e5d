// refused: [fulgurite.data.dataset] a data set has samples, and a trainer reads batches: pass a loader of it, data::Loader{dataset, {.batch_size = 32, .shuffle = true}}
#include <toy.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Samples {
  std::size_t size() const { return 8; }
  double get(std::size_t i) const { return static_cast<double>(i); }
};

struct Net : toy::P {
  toy::Tensor training_step(std::vector<double> const&, auto& ctx) {
    ctx.log(loss, -p, {.batch_size = 4});
    return -p;
  }
  void test_step(std::vector<double> const&, auto&) {}
};

int main() {
  Net net;
  Samples const samples;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  data::Loader loader{samples, {.batch_size = 4, .shuffle = true}};
  trainer.fit(net, loader);
#else
  trainer.fit(net, samples);
#endif
}
