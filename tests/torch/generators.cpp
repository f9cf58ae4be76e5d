// Random numbers go on where they were, and a gradient scaler between two steps.
#include "fixtures.hpp"

#include <limits>
#include <string>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/backend.hpp>

namespace {
using Catch::Matchers::StartsWith;
using fixtures::same_bits;
using fulgurite::LibTorch;
using torch::Tensor;

/// Three normals leave a fourth with the generator.
Tensor drawn() { return torch::cat({torch::randn({3}), torch::rand({2}), torch::randn({1}), torch::randn({40})}); }

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
}  // namespace

TEST_CASE("random numbers go on from a saved state", "[rng]") {
  torch::manual_seed(3);
  torch::randn({3});
  auto state = LibTorch::rng_state();
  auto const text = fulgurite::state_text(state);
  auto const expected = drawn();
  state.restore();
  CHECK(same_bits(drawn(), expected));

  torch::manual_seed(99);
  auto const elsewhere = drawn();
  torch::manual_seed(99);
  auto later = LibTorch::rng_state();
  fulgurite::load_state_text(later, text);
  CHECK(same_bits(drawn(), elsewhere));  // loading alone changes no generator
  later.restore();
  CHECK(same_bits(drawn(), expected));
  CHECK(fulgurite::state_text(later) == text);
}

TEST_CASE("a state of a device that this machine lacks is passed over, others are judged", "[rng]") {
  torch::manual_seed(3);
  auto state = LibTorch::rng_state();
  auto const text = fulgurite::state_text(state);
  auto const expected = drawn();
  auto const tensor = R"({"$tensor":{"dtype":"U8","shape":[2],"bytes":"0102"}})";
  auto const with = replaced(replaced(text, R"(["cpu")", R"(["cpu","cuda:99","no such device")"), R"("cpu":)",
                             std::string(R"("cuda:99":)") + tensor + R"(,"no such device":)" + tensor + R"(,"cpu":)");
  auto loaded = LibTorch::rng_state();
  fulgurite::load_state_text(loaded, with);
  loaded.restore();
  CHECK(same_bits(drawn(), expected));

  auto const refused = [&](std::string const& other) {
    CHECK_THROWS_WITH(fulgurite::load_state_text(loaded, other), StartsWith("[fulgurite.random.state]"));
    loaded.restore();
    CHECK(same_bits(drawn(), expected));
  };
  refused(R"({"devices":[]})");
  refused(std::string(R"({"devices":["cuda:99"],"cuda:99":)") + tensor + "}");
  refused(std::string(R"({"devices":["cpu"],"cpu":)") + tensor + "}");
  refused(R"({"devices":["cpu"],"cpu":null})");
  auto const begin = text.find("\"bytes\":\"") + 9;
  auto zeros = text;  // of the right size, but no state that the generator can be in
  for (auto i = begin; zeros[i] != '"'; ++i) zeros[i] = '0';
  refused(zeros);
}

TEST_CASE("a scaler forgets the half of a step when it is loaded", "[scaler]") {
  using Scaler = LibTorch::Scaler<fulgurite::Fp16Mixed>;
  fulgurite::Fp16Mixed const precision{.init_scale = 64, .growth_interval = 2};
  Scaler scaler(precision, at::kCPU);
  auto const text = fulgurite::state_text(scaler);
  auto parameter = torch::ones({1}).requires_grad_();
  parameter.mutable_grad() = torch::full({1}, std::numeric_limits<float>::infinity());
  scaler.unscale(std::vector{parameter});
  CHECK_FALSE(scaler.finite());
  fulgurite::load_state_text(scaler, text);
  CHECK(scaler.finite());
  scaler.update();
  CHECK(scaler.scale() == 64.0);
}
