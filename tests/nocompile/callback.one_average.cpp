// refused: [fulgurite.callback.one_average] two callbacks put an average in the place of the weights, and would undo each other's work: keep one
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

template <int>
struct Average {
  static constexpr bool replaces_weights = true;
  void on_train_end() {}
};

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Average<1>{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      Average<1>{}, Average<2>{});
#endif
  trainer.fit(net, toy::batches(4));
}
