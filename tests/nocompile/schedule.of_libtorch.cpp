// refused: [fulgurite.schedule.of_libtorch] torch_schedule and torch_plateau move an optimizer of LibTorch, and this is none: take torch::optim::Adam, or a schedule of the library, such as schedule::Step{10}
// needs: LibTorch
#include <torch/torch.h>

#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;

struct Net : torch::nn::LinearImpl {
  Net() : LinearImpl(3, 1) {}
  torch::Tensor training_step(torch::Tensor const& batch) { return forward(batch).mean(); }
  auto configure_optimizers() {
    auto halves = torch_schedule([](auto& optimizer) { return torch::optim::StepLR(optimizer, 10, 0.5); });
#ifdef LEGAL
    return scheduled(torch::optim::Adam(parameters(), 0.1), std::move(halves));
#else
    return scheduled(optim::Adam(*this, 0.1), std::move(halves));
#endif
  }
};

int main() {
  Net net;
  make_trainer(net, TrainerOptions{.max_epochs = 1}).fit(net, std::vector{torch::ones({2, 3})});
}
