// refused: [fulgurite.options.val_check_interval] val_check_interval: with check_val_every_n_epoch = nullopt batches are counted across epochs: give a count or a duration, not a Fraction of an epoch
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(
      constant([] {
        return TrainerOptions{.max_epochs = 1, .val_check_interval = 50, .check_val_every_n_epoch = std::nullopt};
      }),
      toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(constant([] {
                                        return TrainerOptions{.max_epochs = 1,
                                                              .val_check_interval = Fraction{0.5},
                                                              .check_val_every_n_epoch = std::nullopt};
                                      }),
                                      toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
