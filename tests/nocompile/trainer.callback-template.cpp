// refused: [fulgurite.trainer.callback] this trainer has none, or several, of these callbacks: name the type of the one that is meant
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  EarlyStopping stopping{toy::P::loss};
#else
  struct : EarlyStopping<Metric<"loss">> {
    using EarlyStopping::EarlyStopping;
  } stopping{toy::P::loss};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, stopping);
  trainer.fit(net, toy::batches(4));
  return static_cast<int>(trainer.callback<EarlyStopping>().reason());
}
