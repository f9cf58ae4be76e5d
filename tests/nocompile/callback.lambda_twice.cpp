// refused: [fulgurite.callback.lambda_twice] two functions of a LambdaCallback are called at the same event: make one of them, or give a second LambdaCallback
#include <toy.hpp>

#include <fulgurite/callback/lambda_callback.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Second = hook::on_train_end;
#else
using Second = hook::on_train_start;
#endif

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      LambdaCallback{on<hook::on_train_start>([] {}), on<Second>([] {})});
  trainer.fit(net, toy::batches(4));
}
