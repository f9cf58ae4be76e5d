// refused: [fulgurite.callback.function] a function alone is called at no event: name one, LambdaCallback{on<hook::on_train_start>(f)}
#include <toy.hpp>

#include <fulgurite/callback/lambda_callback.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      LambdaCallback{on<hook::on_train_start>([](auto&) {})});
#else
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, [](auto&) {});
#endif
  trainer.fit(net, toy::batches(4));
}
