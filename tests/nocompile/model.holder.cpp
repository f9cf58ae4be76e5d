// refused: [fulgurite.model.holder] the model's type is a pointer or a holder: name the class behind it, such as NetImpl, and pass *net
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#include <memory>

int main() {
  auto net = std::make_shared<toy::P>();
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer =
      make_trainer<std::shared_ptr<toy::P>>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(*net, toy::batches(4));
}
