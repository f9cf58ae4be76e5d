// refused: [fulgurite.model.script] a torch::jit::Module is no torch::nn::Module, so no checkpoint would have its weights: derive the model from Scripted, of fulgurite/torch/export/torchscript.hpp
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Script {};  // stands for torch::jit::Module
struct Library : toy::Backend {
  template <class M>
  static constexpr bool is_script = std::is_base_of_v<Script, M>;
};
struct Own : toy::Device {
  using Backend = Library;
};
#ifdef LEGAL
class Net : public toy::P {};
#else
class Net : public Script, public toy::P {};
#endif

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
