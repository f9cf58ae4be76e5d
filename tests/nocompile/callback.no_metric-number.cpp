// refused: [fulgurite.callback.no_metric] this callback watches a metric, and none is given: pass the model's constant first, as in EarlyStopping{Net::val_loss, {.patience = 5}}
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      EarlyStopping{toy::P::loss, {.patience = 5}});
#else
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, EarlyStopping{5});
#endif
  trainer.fit(net, toy::batches(4));
}
