// refused: [fulgurite.callback.list] callbacks are given one by one, each with its own type, and this is a list: make_trainer<Net>(options, EarlyStopping{...}, ModelCheckpoint{...})
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <tuple>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      EarlyStopping{toy::P::loss});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      std::tuple{EarlyStopping{toy::P::loss}});
#endif
  trainer.fit(net, toy::batches(4));
}
