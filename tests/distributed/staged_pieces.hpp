#pragma once
// Pieces of a pipeline that are no matter of processes; each function returns how many of its claims are wrong.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <fulgurite/distributed/pipeline.hpp>
#include <fulgurite/torch/chain/chain.hpp>
#include <fulgurite/torch/chain/layers.hpp>
#include <fulgurite/torch/device/modules.hpp>

namespace pieces {
namespace nn = torch::nn;
using namespace fulgurite;

/// A part of a stage whose activations are computed again.
struct Block : nn::Module {
  nn::Linear in = register_module("in", nn::Linear(8, 16)), back = register_module("back", nn::Linear(16, 8));
  at::Tensor inside(at::Tensor const& x) { return back->forward(in->forward(x).tanh()); }
  at::Tensor forward(at::Tensor x) {
    return x + checkpointed([this](at::Tensor const& input) { return inside(input); }, x);
  }
};

/// Lists of stages of all kinds give what their layers give.
inline int lists() {
  torch::manual_seed(1);
  auto const x = torch::randn({3, 4});
  int wrong = 0;
  auto const check = [&](auto& model, std::size_t count, at::Tensor const& wanted) {
    auto&& list = model.stages();
    wrong += distributed::stages_of(list).size() != count || !through_stages(model, x).equal(wanted);
  };
  struct OfChain : Chain<Linear<4, 8>, ReLU, Residual<Chain<Linear<8, 8>, Tanh>>, Linear<8, 2>> {
    auto& stages() { return *this; }
  } chain;
  check(chain, 4, chain.forward(x));
  struct OfTuple : nn::Module {
    nn::Linear one = register_module("one", nn::Linear(4, 8));
    std::shared_ptr<Block> two = register_module("two", std::make_shared<Block>());
    Chain<Linear<8, 2>> three{*this, "three"};
    auto stages() {
      return std::tuple<nn::LinearImpl&, std::shared_ptr<Block>, at::Tensor (*)(at::Tensor), Chain<Linear<8, 2>>&>(
          *one, two, [](at::Tensor t) { return t.relu(); }, three);
    }
  } tuple;
  check(tuple, 4, tuple.three(tuple.two->forward(tuple.one(x)).relu()));
  struct OfHolders : nn::Module {
    nn::Linear one = register_module("one", nn::Linear(4, 8)), two = register_module("two", nn::Linear(8, 2));
    auto stages() { return std::tie(one, two); }
  } holders;
  check(holders, 2, holders.two(holders.one(x)));
  struct OfOnes : nn::Module {
    nn::Linear one = register_module("one", nn::Linear(4, 8)), two = register_module("two", nn::Linear(8, 2));
    nn::Sequential stages() { return nn::Sequential(one, two); }
  } ones;
  check(ones, 2, ones.two(ones.one(x)));
  auto const before = ones.one.ptr().use_count();
  auto const stages = [&] {
    auto list = ones.stages();
    return distributed::stages_of(list);
  }();
  wrong += ones.one.ptr().use_count() == before;  // the stages keep what they run, though their list is gone
  wrong += !stages[1].forward(stages[0].forward(x)).equal(ones.two(ones.one(x)));
  struct Without : nn::Module {
    int stages() { return 3; }
  };
  wrong += HasStages<Without> || HasStages<nn::LinearImpl> || !HasStages<OfHolders>;
  return wrong;
}

/// 1 unless f() throws the Error of that name, whose text has `says`.
template <class F>
int throws(std::string const& identifier, std::string const& says, F&& f) {
  try {
    f();
  } catch (Error const& error) {
    if (error.identifier() == identifier && std::string(error.what()).find(says) != std::string::npos) return 0;
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("no %s\n", identifier.c_str());
  return 1;
}

struct Sample {
  at::Tensor data, weight = torch::full({}, 2.0);
  std::vector<std::string> names = {};
  std::string source = "a file";
};
/// Moves itself, and nobody can look into it.
class Closed {
 public:
  explicit Closed(at::Tensor data) : data_(std::move(data)) {}
  Closed to(at::Device) const { return *this; }

 private:
  at::Tensor data_;
};
struct HasClosed {
  at::Tensor data;
  Closed closed;
};

/// Each part of a batch is cut along its samples, belongs to all of them, or is refused.
inline int batches() {
  auto const cut = [](auto const& batch, int count) { return distributed::micro_batches_of(batch, count); };
  auto const x = torch::arange(10).reshape({5, 2});
  Sample const sample{.data = x, .names = {"a", "b", "c", "d", "e"}};
  auto const all = cut(sample, 2);
  int wrong = all.size() != 2 || !all[0].data.equal(x.narrow(0, 0, 3)) || !all[1].data.equal(x.narrow(0, 3, 2));
  wrong +=
      all[0].names != std::vector<std::string>{"a", "b", "c"} || all[1].names != std::vector<std::string>{"d", "e"};
  wrong += all[1].source != "a file" || all[1].weight.item<double>() != 2.0 || sample.names.size() != 5;
  auto const refused = [&](auto const& batch, std::string const& says) {
    return throws("fulgurite.pipeline.batch", says, [&] { cut(batch, 2); });
  };
  wrong += refused(Sample{.data = x, .names = {"a"}}, "has 1 rows, and the batch 5 samples");
  wrong += refused(std::vector<at::Tensor>{x, x.narrow(0, 0, 3)}, "has 3 rows, and the batch 5 samples");
  wrong += refused(HasClosed{x, Closed(x)}, "no rows that could be found");
  wrong += cut(HasClosed{x, Closed(x)}, 1).size() != 1;
  return wrong;
}

/// A parameter in stages of two processes; options that cannot be.
inline int shares() {
  struct Twice : nn::Module {
    nn::Linear one = register_module("one", nn::Linear(4, 4));
    auto stages() { return std::tie(one, one); }
  } twice;
  auto&& list = twice.stages();
  auto const stages = distributed::stages_of(list);
  distributed::ModelParts parts;
  int wrong = throws("fulgurite.pipeline.shared", "'one.weight' belongs to stages of rank 0 and of rank 1",
                     [&] { parts.share_out(twice, stages, {}, 2); });
  parts.share_out(twice, stages, {2}, 1);
  wrong += throws("fulgurite.pipeline.micro_batches", ".micro_batches = 0",
                  [&] { Pipeline{.micro_batches = 0}.setup(twice, Float32{}); });
  return wrong;
}

inline int wrong() { return lists() + batches() + shares(); }

}  // namespace pieces
