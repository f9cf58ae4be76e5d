#pragma once
// What a validation inside fit begins with. A file that is written while it runs, or after it has failed, holds this: a
// fit that resumes from the file runs the whole validation again.

#include <string_view>
#include <type_traits>

#include <fulgurite/concept/traits.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Whether this callback's state is kept before each validation. Not of one that keeps files, whose state is of what is
/// on the disk, nor of one that prepares its state for each file.
template <class C>
inline constexpr bool kept_before_validation =
    !judge::keeps_checkpoints<C>() && !hook::before_save::named<C> && !hook::after_save::named<C>;

/// The state before the validation that a fit runs again when it resumes from a file of this moment; nullptr where it
/// runs none again.
template <class R>
BeforeValidation<R> const* before_repeated_validation(State<R> const& run) {
  bool const repeated = run.before_validation && run.point.at == At::after_batch &&
                        !run.due.heard.template failed<hook::on_validation_end>();
  return repeated ? &*run.before_validation : nullptr;
}

/// Saves one of the parts as it was then. False where it was not kept, or nothing is repeated: save what is there now.
template <class R, class Archive>
bool add_before_validation(State<R> const& run, std::string_view part, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->parts.add_to(archive, part); })
    if (auto const* const before = before_repeated_validation(run)) return before->parts.add_to(archive, part);
  return false;
}
/// The same for the callback of that name.
template <class R, class Archive>
bool add_callback_before_validation(State<R> const& run, std::string_view name, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->callbacks.add_to(archive, name); })
    if (auto const* const before = before_repeated_validation(run)) return before->callbacks.add_to(archive, name);
  return false;
}

/// The random numbers that a fit which resumes continues with.
template <class R, class Archive>
void fold_random(State<R>& run, Archive& archive) {
  auto random = R::Backend::rng_state();
  if constexpr (!Archive::loading)
    if (auto const* const before = before_repeated_validation(run)) random = before->random;
  archive.child("random", random);
  if constexpr (Archive::loading) random.restore();
}

}  // namespace fulgurite::loop
