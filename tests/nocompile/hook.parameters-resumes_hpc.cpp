// refused: [fulgurite.hook.parameters] resumes_hpc cannot be called: make it a public function, resumes_hpc()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifdef LEGAL
  bool resumes_hpc() const { return false; }
#else
  bool resumes_hpc(bool) const { return false; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
