// refused: [fulgurite.callback.needs_data_module] this callback makes loaders again, so it needs a data module, or a model with train_dataloader(): pass that instead of loaders
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

struct Data {
  long batch_size = 2;
  auto train_dataloader() { return toy::batches(4); }
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      BatchSizeFinder<toy::P, Data>{{.search = {.field = &Data::batch_size}}});
#ifdef LEGAL
  Data data;
#else
  auto data = toy::batches(4);
#endif
  trainer.fit(net, data);
}
