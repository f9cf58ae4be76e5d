// refused: [fulgurite.tuner.no_size] this loader's batch size cannot be set: give it `long batch_size() const` and `void set_batch_size(long)`, or pass a data module that makes it from a field, .field = &Data::batch_size
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(std::vector<double> const&) { return -p; }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

int main() {
  Net net;
#ifdef LEGAL
  data::Loader all{toy::batches(8), {.batch_size = 2}};
#else
  std::vector<std::vector<double>> all(4);
#endif
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  tune::scale_batch_size(trainer, net, all);
}
