#pragma once
// main in one line: docs/command_line.md.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/cli/program.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

/// The whole of main, with `fit`, `validate`, `test`, `predict` and `tune` as far as model and data have what they
/// need; see --help of the program. Model and Data are made from their settings, which are their member `hparams`.
///
///   int main(int argc, char** argv) {
///     return cli::run<Net, Digits>(
///         argc, argv, [](auto... parts) { return make_trainer<Net>(parts..., EarlyStopping{Net::val_loss}); },
///         cli::precisions<Float32, Bf16Mixed>());
///   }
///
/// `make` is given the options, the chosen policies and a callback, and makes the trainer from them and
/// from what is the program's own. Behind it stand choices (precisions, choice, from_text) and policies that are the
/// same in each run, such as Manual{}.
template <class Model, class Data, class Make, class... Choices>
  requires(!ChoiceOrPolicy<Make>)
int run(int argc, char const* const* argv, Make make, Choices... choices) {
  try {
    Program<Model, Data, Make, Choices...> program(std::move(make), std::move(choices)...);
    return program.run(argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program",
                       argc > 0 ? std::vector<std::string>(argv + 1, argv + argc) : std::vector<std::string>(),
                       ::environ);
  } catch (Error const& error) {  // a setting whose name no command line can say
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
/// The same with the trainer of make_trainer<Model>(TrainerOptions{...}).
template <class Model, class Data, class... Choices>
  requires(ChoiceOrPolicy<Choices> && ...)
int run(int argc, char const* const* argv, Choices... choices) {
  return run<Model, Data>(argc, argv, MakeDefault<Model>(), std::move(choices)...);
}

}  // namespace fulgurite::cli
