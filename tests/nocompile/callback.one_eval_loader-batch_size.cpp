// refused: [fulgurite.callback.one_eval_loader] this callback tries evaluation on one loader, and several were given: pass one, or leave it out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Tensor training_step(std::vector<double> const& rows) { return p * toy::Tensor(rows[0]); }
  void validation_step(std::vector<double> const&) {}
};

int main() {
  Net net;
  data::Loader loader{toy::batches(4), {.batch_size = 2}};
  std::tuple both(data::Loader{toy::batches(4), {.batch_size = 2}}, data::Loader{toy::batches(4), {.batch_size = 2}});
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                   BatchSizeFinder<Net>{{.search = {.show = false}}});
  trainer.fit(net, loader, both);  // nobody tries out what a fit validates on
#ifdef LEGAL
  trainer.validate(net, loader);
#else
  trainer.validate(net, both);
#endif
}
