// refused: [fulgurite.tuner.one_eval_loader] batch sizes are tried on one evaluation loader: pass each alone
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(std::vector<double> const&) { return -p; }
  void test_step(std::vector<double> const&) {}
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

int main() {
  Net net;
  data::Loader all{toy::batches(8), {.batch_size = 2}};
  data::Loader more{toy::batches(8), {.batch_size = 2}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  tune::scale_batch_size<tune::test>(trainer, net, more);
#else
  auto both = std::tuple(std::move(all), std::move(more));
  tune::scale_batch_size<tune::test>(trainer, net, both);
#endif
}
