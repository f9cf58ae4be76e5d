// A small causal transformer learns to write, character by character, in the manner of the text that it reads.
//   char_gpt                  learns from the sources and documents of this project
//   char_gpt --text FILE      learns from a file
// Prints what it writes at the end.

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"
#include "helpers/own_text.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Shape {
  long vocabulary, block, width = 128, heads = 4, layers = 3;
};

nn::LayerNorm norm(Shape const& shape) { return nn::LayerNorm(nn::LayerNormOptions({shape.width})); }

struct BlockImpl : nn::Module {
  long heads;
  nn::Sequential qkv, mlp;
  modules::Linear out;

  explicit BlockImpl(Shape const& shape)
      : heads(shape.heads),
        qkv(register_module("qkv", nn::Sequential(norm(shape), modules::Linear(shape.width, 3 * shape.width)))),
        mlp(register_module("mlp", nn::Sequential(norm(shape), modules::Linear(shape.width, 4 * shape.width),
                                                  nn::GELU(), modules::Linear(4 * shape.width, shape.width)))),
        out(register_module("out", modules::Linear(shape.width, shape.width))) {}

  torch::Tensor forward(torch::Tensor const& x) {
    // Three tensors, each (batch, head, time, feature).
    auto const parts = qkv->forward(x).unflatten(2, {3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto const seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true);
    auto const mixed = x + out(seen.transpose(1, 2).flatten(2));
    return mixed + mlp->forward(mixed);
  }
};
TORCH_MODULE(Block);

struct Gpt : nn::Module {
  static constexpr Metric<"train/loss"> train_loss{.prog_bar = true};
  static constexpr Metric<"val/loss"> val_loss{.prog_bar = true};
  using Metrics = MetricList<train_loss, val_loss>;

  Shape shape;
  nn::Embedding characters, places;
  nn::Sequential blocks;
  modules::Linear head;

  explicit Gpt(Shape const& of)
      : shape(of),
        characters(register_module("characters", nn::Embedding(of.vocabulary, of.width))),
        places(register_module("places", nn::Embedding(of.block, of.width))),
        blocks(register_module("blocks", nn::Sequential())),
        head(register_module("head", modules::Linear(of.width, of.vocabulary))) {
    for (long i = 0; i < of.layers; ++i) blocks->push_back(Block(of));
    blocks->push_back(norm(of));
    torch::NoGradGuard const no_grad;
    for (auto const& embedding : {characters, places}) embedding->weight.mul_(0.1);
  }

  torch::Tensor forward(torch::Tensor const& text) {
    return head(blocks->forward(characters(text) + places(torch::arange(text.size(1), text.options()))));
  }
  torch::Tensor loss(auto const& batch) {
    return F::cross_entropy(forward(batch.data).flatten(0, 1), batch.target.flatten());
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto l = loss(batch);
    ctx.log(train_loss, l);
    return l;
  }
  void validation_step(auto const& batch, auto& ctx) { ctx.log(val_loss, loss(batch)); }
  auto configure_optimizers(auto& ctx) {
    long const steps = ctx.estimated_steps().value();
    return scheduled(torch::optim::AdamW(parameters(), torch::optim::AdamWOptions(3e-3).weight_decay(0.05)),
                     schedule::WarmupCosine{.warmup = steps / 10, .total = steps, .least = 0.05});
  }
  /// Appends to `text`, drawing each character from the network's distribution.
  std::vector<std::int64_t> write(std::vector<std::int64_t> text, long count, double temperature) {
    torch::NoGradGuard const no_grad;
    for (long i = 0; i < count; ++i) {
      auto const seen = std::min<long>(static_cast<long>(text.size()), shape.block);
      auto const input = torch::tensor(std::vector<std::int64_t>(text.end() - seen, text.end())).unsqueeze(0);
      text.push_back((forward(input).select(1, -1) / temperature).softmax(-1).multinomial(1).item<std::int64_t>());
    }
    return text;
  }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv,
                               "Trains a small transformer on text, one character after another, and lets it write.");
  bool const fast = arguments.flag("--fast", "eight batches, to see that everything works");
  auto const text = arguments.value<std::string>("--text", "", "file to learn from (default: the project's own texts)");
  auto const prompt = arguments.value<std::string>("--prompt", text.empty() ? "struct " : "", "what it continues");
  int const epochs = arguments.value("--epochs", 12, "of --batches batches");
  long const batches = arguments.value("--batches", 120L, "in an epoch");
  int const threads = arguments.value("--threads", 1, "of the CPU");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of weights, batches and writing");
  arguments.done();

  torch::set_num_threads(threads);
  torch::manual_seed(seed);
  auto corpus = data::text(text.empty() ? data::TextFiles(example::own_texts()) : data::TextFiles(text),
                           {.block = 96, .batches = batches, .validation = 0.03, .batch_size = 12, .seed = seed});
  auto const beginning = prompt.empty() ? std::vector<std::int64_t>{0} : corpus.encode(prompt);
  Gpt gpt({.vocabulary = std::ssize(corpus.vocabulary()), .block = 96});
  auto trainer = make_trainer<Gpt>(TrainerOptions{.max_epochs = fast ? 1 : epochs,
                                                  .limit_train_batches = fast ? Limit{8} : Limit{},
                                                  .limit_val_batches = fast ? Limit{2} : Limit{}},
                                   Automatic{.accumulate_grad_batches = 2, .clip = ClipNorm{1.0}},
                                   LearningRateMonitor{}, Signals{});  // after Ctrl-C, the next run can resume
  trainer.fit(gpt, corpus);
  std::printf("%s\n", corpus.decode(gpt.write(beginning, fast ? 20 : 600, 0.7)).c_str());
} catch (std::exception const& error) { return example::failed(error); }
