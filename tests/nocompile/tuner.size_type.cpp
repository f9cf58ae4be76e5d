// refused: [fulgurite.tuner.size_type] a batch size is put into a member that is an integer and no constant: write `long batch_size = 2;`
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
struct Data {
#ifdef LEGAL
  int batch_size = 2;
#else
  double batch_size = 2;
#endif
  auto train_dataloader() { return data::Loader{toy::batches(8), {.batch_size = 2}}; }
};

int main() {
  Net net;
  Data all;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  tune::scale_batch_size(trainer, net, all, {.field = &Data::batch_size});
}
