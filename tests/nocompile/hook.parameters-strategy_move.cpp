// refused: [fulgurite.hook.parameters] move of this strategy cannot be called: make it a public function, move(auto&& batch)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  template <class B>
  B&& move(B&& batch) {
    return static_cast<B&&>(batch);
  }
#else
  template <class B>
  B&& move(B&& batch, int) {
    return static_cast<B&&>(batch);
  }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
