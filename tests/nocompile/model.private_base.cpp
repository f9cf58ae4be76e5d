// refused: [fulgurite.model.private_base] the model inherits torch::nn::Module privately, so its parameters are out of reach: write `: public torch::nn::Module`, or `struct`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Module {};  // stands for torch::nn::Module
struct Library : toy::Backend {
  template <class M>
  static constexpr bool hides_base = std::is_base_of_v<Module, M> && !std::is_convertible_v<M*, Module*>;
};
struct Own : toy::Device {
  using Backend = Library;
};
#ifdef LEGAL
class Net : public Module, public toy::P {};
#else
class Net : Module, public toy::P {};
#endif

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
