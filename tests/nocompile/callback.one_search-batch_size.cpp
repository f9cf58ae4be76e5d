// refused: [fulgurite.callback.one_search] two callbacks search for the same (two learning rates, or two batch sizes), and the second would undo what the first one has found: keep one
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

struct Net : toy::P {
  long batch_size = 2;
  toy::Tensor training_step(std::vector<double> const& rows) { return p * toy::Tensor(rows[0]); }
};
struct Data {
  long batch_size = 2;
  auto train_dataloader() { return data::Loader{toy::batches(4), {.batch_size = batch_size}}; }
};

int main() {
  Net net;
  Data data;
#ifndef LEGAL
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                   BatchSizeFinder<Net>{}, BatchSizeFinder<Net, Data>{});
#else
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                   BatchSizeFinder<Net, Data>{{.search = {.field = &Data::batch_size}}});
#endif
  trainer.fit(net, data);
}
