// modules::Linear: what it has in common with torch::nn::Linear, and which operators it calls.
#include "captured_fits.hpp"

#include <torch/serialize.h>

#include <fulgurite/torch/device/modules.hpp>

namespace nn = torch::nn;
using fixtures::same_bits;
using torch::Tensor;

namespace {

template <class Layer>
Layer made(nn::LinearOptions const& options) {
  torch::manual_seed(7);
  return Layer(options);
}

struct Net : nn::Module {
  nn::Sequential body = register_module(
      "body", nn::Sequential(fulgurite::modules::Linear(6, 8), nn::Tanh(), fulgurite::modules::Linear(8, 3)));
  Tensor example_input_array = torch::zeros({2, 5, 6});
  Tensor forward(Tensor const& x) { return body->forward(x); }
};

}  // namespace

TEST_CASE("our Linear has the weights and names of LibTorch's, and adds the bias inside the product") {
  for (bool const bias : {true, false}) {
    auto const options = nn::LinearOptions(24, 40).bias(bias);
    auto theirs = made<nn::Linear>(options);
    auto ours = made<fulgurite::modules::Linear>(options);
    CHECK(same_bits(theirs->weight, ours->weight));
    CHECK(ours->named_parameters().size() == (bias ? 2 : 1));
    CHECK(ours->as<nn::Linear>() != nullptr);
    if (bias) CHECK(same_bits(theirs->bias, ours->bias));
    std::stringstream file;
    torch::save(theirs, file);
    torch::load(ours, file);
    CHECK(same_bits(theirs->weight, ours->weight));

    auto const x = torch::randn({4, 9, 24});
    for (auto const& input : {x[0], x[0].t().contiguous().t(), x[0][0], x, x.transpose(0, 1), x.view({2, 2, 9, 24})}) {
      auto const added_after = [&](auto& layer, Tensor& result) {
        fixtures::Operators const called;
        result = layer->forward(input);
        CHECK(called.saw("aten::addmm") == (bias && !called.saw("aten::add_")));
        return called.saw("aten::add_");
      };
      Tensor y, theirs_is;
      CHECK(added_after(theirs, theirs_is) == (bias && input.dim() != 2));
      CHECK(added_after(ours, y) == (bias && input.dim() != 2 && !input.is_contiguous()));
      if (input.dim() == 2) CHECK(same_bits(y, theirs_is));
      CHECK(at::allclose(y, theirs_is));
    }
  }
}

TEST_CASE("a copy of our Linear is our Linear, alone and in a Sequential") {
  Net net;
  net.body->eval();
  auto const copy = std::dynamic_pointer_cast<nn::SequentialImpl>(net.body->clone());
  auto const* const layer = copy->ptr(0)->as<fulgurite::modules::LinearImpl>();
  REQUIRE(layer != nullptr);
  CHECK_FALSE(layer->is_training());
  CHECK(same_bits(layer->weight, net.body->ptr(0)->as<nn::Linear>()->weight));
  CHECK(layer->weight.const_data_ptr() != net.body->ptr(0)->as<nn::Linear>()->weight.const_data_ptr());
}

TEST_CASE("summaries and captured steps know our Linear as they know LibTorch's") {
  Net net;
  auto rows = fulgurite::LibTorch::summarize(net, -1);
  fulgurite::LibTorch::run_example(net, rows);
  REQUIRE(rows.size() == 5);
  CHECK(rows[2].type == "Linear");
  CHECK(rows[2].in + " to " + rows[2].out == "[2, 5, 6] to [2, 5, 8]");
  CHECK(rows[2].flops == 2 * 2 * 5 * 6 * 8);
  fulgurite::libtorch::capture::HostBytes const host({nullptr, 0}, *net.body);
  CHECK(host.unseen().empty());
}
