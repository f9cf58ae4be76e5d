// refused: [fulgurite.data.dataset] a data set has samples, and a trainer reads batches: pass a loader of it, data::Loader{dataset, {.batch_size = 32, .shuffle = true}}
#include <toy.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Samples {
  std::size_t size() const { return 8; }
  double get(std::size_t i) const { return static_cast<double>(i); }
#ifdef LEGAL
  // With loaders of its own it is a data module, whatever else it has.
  auto train_dataloader() const { return data::Loader{std::vector<double>(8), {.batch_size = 4, .shuffle = true}}; }
#endif
};

struct Net : toy::P {
  toy::Tensor training_step(std::vector<double> const&, auto& ctx) {
    ctx.log(loss, -p, {.batch_size = 4});
    return -p;
  }
};

int main() {
  Net net;
  Samples samples;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, samples);
}
