// refused: [fulgurite.hook.parameters] configure_optimizers cannot be called: make it a public function, configure_optimizers() or configure_optimizers(auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  toy::Sgd configure_optimizers() {
    return {{ p }};
  }
#else
  toy::Sgd configure_optimizers(double rate) { return {{p}, rate}; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
