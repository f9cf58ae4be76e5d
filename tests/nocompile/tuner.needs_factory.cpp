// refused: [fulgurite.tuner.needs_factory] a loader that is there already is not made again from a field: pass a data module, or the model, with train_dataloader(), or leave .field out where the loader has set_batch_size(long)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(std::vector<double> const&) { return -p; }
  long batch_size = 2;
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

int main() {
  Net net;
  data::Loader all{toy::batches(8), {.batch_size = 2}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  tune::scale_batch_size(trainer, net, all);
#else
  tune::scale_batch_size(trainer, net, all, {.field = &Net::batch_size});
#endif
}
