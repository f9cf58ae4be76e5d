#pragma once
// The file whose weights an evaluation takes.

#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/kept_weights.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/starting_file.hpp>
#include <fulgurite/loop/whole_file.hpp>

namespace fulgurite::loop {

/// The weights of a file for an evaluation, and what the model and the data module keep beside them. Where one does not
/// fit, the others are put back. Counters and callbacks stay as they are.
template <class R, class Pack, class Source, class From>
class EvaluatedFile {
 public:
  EvaluatedFile(State<R>& run, Pack& pack, Source& source, From const& from)
      : run_(run), pack_(pack), source_(source), start_(from) {}

  void find() { start_.template look<false>(run_, pack_); }
  void load() {
    find();
    if (auto const file = start_.take(run_)) load(*file);
  }

 private:
  template <class File>
  void load(File const& file) {
    auto& model = *run_.parts.model;
    auto const progress = run_.progress;
    KeptWeights<R> before;
    before.keep(model);
    file.load_weights(model);
    try {
      if (is_of_trainer(file))
        file.load([&](auto& archive) {
          fold_weights_state(run_, archive);
          fold_data_module<R>(source_, archive);
        });
      else if constexpr (Stateful<typename R::Model, typename R::Backend::RunFile::Saver>)
        run_.warn_each("fulgurite.resume.no_state",
                       "the file holds weights alone: what the model keeps beside them stays as it is");
    } catch (...) {
      before.put_back(model);
      throw;
    }
    run_.progress = progress;
    if constexpr (requires { file.state(); }) warn_of_data(file.state().find("data_module"));
  }

  /// Where the file and this call do not both have a data module that keeps something, such as means and categories,
  /// rows may be encoded otherwise than in training. Only the program knows; `kept` is the file's.
  template <class Node>
  void warn_of_data(Node const* kept) {
    if (kept == nullptr || kept->holds_nothing()) return keep_own_data_state(run_, source_);
    if constexpr (!loads_data_module<R, Source, typename R::Backend::RunFile::Saver>)
      run_.warn_each("fulgurite.resume.data_state",
                     "the file keeps what the data module of its run has learned, and this call has no data module "
                     "that loads it: pass the module, unless these inputs are already encoded as in training");
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  StartOf<R, From> start_;
};
/// Of a call that names no file.
template <class R, class Pack, class Source>
struct EvaluatedFile<R, Pack, Source, Anew> {
  EvaluatedFile(State<R>&, Pack&, Source&, Anew) {}
  void find() {}
  void load() {}
};

}  // namespace fulgurite::loop
