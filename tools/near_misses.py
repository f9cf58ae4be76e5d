"""Writes the table of names that look like hooks and are not: `near_misses.py write` after a change here or in
hook/hooks.hpp or hook/policy_hooks.hpp.

A name can only be probed one by one, so the table holds what people are known to write: Lightning's renamed and removed
hooks (LIGHTNING), and for every hook its usual slips (slips). It holds no name that a class may have for its own
purposes: a false alarm is worse than a miss. tests/layout/near_misses.py shows that the headers are as written here."""

import functools
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / 'include' / 'fulgurite'

# What Lightning renamed or removed, and what its users and Keras' expect -> what is meant. A text is no hook's name but
# says what to use.
ARCHIVE = 'state(archive), which saves and loads'
LIGHTNING = {
    'training_step_end': 'on_train_batch_end', 'validation_step_end': 'on_validation_batch_end',
    'test_step_end': 'on_test_batch_end', 'predict_step_end': 'on_predict_batch_end',
    'on_train_step_end': 'on_train_batch_end', 'on_validation_step_end': 'on_validation_batch_end',
    'on_training_step_end': 'on_train_batch_end', 'on_test_step_end': 'on_test_batch_end', 'on_predict_step_end': 'on_predict_batch_end',
    'training_epoch_end': 'on_train_epoch_end', 'training_end': 'on_train_batch_end',
    'validation_end': 'on_validation_epoch_end', 'test_end': 'on_test_epoch_end',
    'on_epoch_start': 'on_train_epoch_start', 'on_epoch_end': 'on_train_epoch_end', 'on_epoch_begin': 'on_train_epoch_start',
    'on_batch_start': 'on_train_batch_start', 'on_batch_end': 'on_train_batch_end', 'on_batch_begin': 'on_train_batch_start',
    'on_init_start': 'setup', 'on_init_end': 'setup', 'on_load_start': 'on_fit_start',
    'on_pretrain_routine_start': 'on_fit_start', 'on_pretrain_routine_end': 'on_fit_start',
    'on_before_accelerator_backend_setup': 'setup', 'on_post_move_to_device': 'on_fit_start',
    'on_configure_sharded_model': 'configure_model', 'configure_sharded_model': 'configure_model',
    'on_after_optimizer_step': 'on_train_batch_end', 'on_before_optimizer_zero_grad': 'on_before_zero_grad',
    'clip_gradients': 'configure_gradient_clipping', 'on_keyboard_interrupt': 'on_exception',
    'on_save_checkpoint': ARCHIVE, 'on_load_checkpoint': ARCHIVE, 'on_hpc_save': ARCHIVE, 'on_hpc_load': ARCHIVE,
    'configure_callbacks': "make_trainer's callbacks", 'configure_apex': "make_trainer's precision",
    'configure_ddp': "make_trainer's strategy", 'init_ddp_connection': "make_trainer's strategy",
    'configure_sync_batchnorm': "make_trainer's strategy",
    'get_progress_bar_dict': 'ctx.log and a metric with .prog_bar = true', 'get_tqdm_dict': 'ctx.log and a metric with .prog_bar = true',
    'on_tng_metrics': 'ctx.log', 'log_grad_norm': 'the callback GradientNorm',
    'log_hyperparameters': 'log_hyperparams', 'log_hparams': 'log_hyperparams',
    'train_step': 'training_step', 'val_step': 'validation_step', 'validate_step': 'validation_step', 'eval_step': 'validation_step',
    'prediction_step': 'predict_step', 'on_train_end_batch': 'on_train_batch_end', 'on_train_start_batch': 'on_train_batch_start',
    'training_dataloader': 'train_dataloader', 'validation_dataloader': 'val_dataloader', 'tng_dataloader': 'train_dataloader',
    'on_reset_train_dataloader': 'train_dataloader', 'on_reset_val_dataloader': 'val_dataloader',
    'on_reset_test_dataloader': 'test_dataloader', 'on_reset_predict_dataloader': 'predict_dataloader',
    'train_loader': 'train_dataloader', 'val_loader': 'val_dataloader', 'validation_loader': 'val_dataloader',
    'valid_loader': 'val_dataloader', 'test_loader': 'test_dataloader', 'predict_loader': 'predict_dataloader',
    'train_dataloaders': 'train_dataloader', 'val_dataloaders': 'val_dataloader', 'validation_dataloaders': 'val_dataloader',
    'test_dataloaders': 'test_dataloader', 'predict_dataloaders': 'predict_dataloader',
}

# A word of a hook -> what is written in its place. One word a name: two slips at once are rare.
OTHER_WORDS = {
    'train': ['training'], 'training': ['train'], 'validation': ['val', 'valid', 'validate'], 'val': ['validation', 'valid'],
    'predict': ['prediction'], 'test': ['testing'],
    'start': ['begin', 'started'], 'end': ['finish', 'finished', 'ended'], 'epoch': ['epochs'], 'batch': ['batches'],
    'grad': ['grads', 'gradient', 'gradients'], 'gradient': ['grad', 'gradients'],
    'optimizer': ['optimiser'], 'optimizers': ['optimisers', 'optimizer'], 'finalize': ['finalise'], 'save': ['saving'],
    'moves': ['move'], 'observe': ['observes'], 'finite': ['are_finite'],
}
TYPOS = {
    'train': ['trian'], 'training': ['trainig', 'traning'], 'validation': ['vaildation', 'validaton'], 'predict': ['perdict'],
    'test': ['tets'], 'batch': ['bacth'], 'epoch': ['epcoh', 'epoc'], 'start': ['strat'], 'end': ['edn'], 'before': ['befor'],
    'optimizer': ['optmizer', 'optimzer'], 'optimizers': ['optmizers', 'optimzers'], 'gradient': ['gradiant'], 'backward': ['bakward'],
    'configure': ['configre', 'confgure'], 'exception': ['excpetion'], 'sanity': ['santiy'], 'prepare': ['perpare'],
    'transfer': ['tranfer'],
    'checkpoints': ['chekpoints', 'checkponts'], 'continue': ['contiune', 'continu'], 'earlier': ['ealier'], 'momentum': ['momemtum', 'momentun'], 'observe': ['obesrve'],
}
# Other names of one function.
OTHER_NAMES = {'zero_grad': ['ZeroGrad']}
# What a private data member may well be called: access hides that it is no function.
DATA_MEMBERS = {'weightDecay', 'weightdecay', 'groupName', 'groupname', 'localRank', 'localrank', 'batchSize',
                'batchsize', 'batches_size'}


def rows(header: str) -> list[tuple[str, str]]:
    """The names of a header of tables, each with its table."""
    tables = re.finditer(r'#define FULGURITE_(\w+)\(ROW\)((?:.*\\\n)*.*\n)', (INCLUDE / 'hook' / header).read_text())
    return [(name, table[1]) for table in tables for name in re.findall(r'ROW\((\w+),', table[2])]


@functools.cache
def hooks() -> dict[str, str]:
    """Every hook of hook/hooks.hpp -> its table."""
    return dict(rows('hooks.hpp'))


@functools.cache
def of_policies() -> dict[str, dict[str, str]]:
    """OPTIMIZERS, SCHEDULES, STRATEGIES -> near misses of their functions in hook/policy_hooks.hpp -> what is meant.
    Words of the general table are asked of strategies as well, and of the others they may be their own functions."""
    kinds: dict[str, dict[str, str]] = {}
    own = {name for name, _ in rows('policy_hooks.hpp')}
    for name, table_name in rows('policy_hooks.hpp'):
        kind = {'OPTIMIZER': 'OPTIMIZERS', 'SCHEDULE': 'SCHEDULES', 'STRATEGY': 'STRATEGIES',
                'DISTRIBUTED': 'STRATEGIES'}[table_name.split('_')[0]]
        taken = own | DATA_MEMBERS | set(hooks()) | set(table()) | {n for names in kinds.values() for n in names}
        for slip in slips(name):
            if slip not in taken and not slip.startswith('on_'):
                kinds.setdefault(kind, {})[slip] = name
    return kinds


def slips(hook: str):
    """What people write who mean this hook: another or a misspelt word, plural, other order, with or without `on_`, in camel case, joined."""
    yield from OTHER_NAMES.get(hook, [])
    words = hook.split('_')
    is_event = words[0] == 'on'
    for at, word in enumerate(words):
        for other in OTHER_WORDS.get(word, []) + TYPOS.get(word, []):
            yield '_'.join(words[:at] + [other] + words[at + 1:])
    if not is_event:
        yield 'on_' + hook
    else:
        yield hook + 's'
        if len(words) > 3 or words[1] in ('before', 'after'):  # train_start may be a position of one's own
            yield '_'.join(words[1:])
        if words[-2] in ('batch', 'epoch') and words[-1] in ('start', 'end'):
            *front, what, when = words
            yield '_'.join(front + [when, what])
            yield '_'.join(front[:-1] + [what, front[-1], when])
    if len(words) > 1:
        camel = words[0] + ''.join(word.capitalize() for word in words[1:])
        yield camel
        if is_event:  # without On, it may be a type of one's own
            yield camel[0].upper() + camel[1:]
    for at in range(len(words) - 1):
        yield '_'.join(words[:at] + [words[at] + words[at + 1]] + words[at + 2:])


def table() -> dict[str, str]:
    """Every near miss -> what is meant: Lightning's first, then by hook."""
    real = hooks()
    found = dict(LIGHTNING)
    for hook in real:
        for name in slips(hook):
            if name not in real and name not in DATA_MEMBERS:
                found.setdefault(name, hook)
    return found


def grouped(names: dict[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, meant in names.items():
        groups.setdefault(meant, []).append(name)
    return groups


def is_loader(name: str, meant: str) -> bool:
    """A class may keep its loaders under such a name."""
    return hooks().get(meant) == 'DATA_HOOKS' and meant.endswith('_dataloader') and not name.startswith('on')


def is_of_loader(meant: str) -> bool:
    """Only loaders are checked for it: a class of another kind may have such a function for its own purposes."""
    return hooks().get(meant) == 'LOADER_HOOKS'


def is_of_callback(meant: str) -> bool:
    """Only callbacks are checked for it."""
    return hooks().get(meant) == 'FILE_HOOKS'


def packed(rows: list[str], most: int) -> list[str]:
    """Rows, as many on a line as fit."""
    lines: list[str] = []
    for row in rows:
        if lines and len(lines[-1]) + 1 + len(row) <= most:
            lines[-1] += ' ' + row
        else:
            lines.append(row)
    return lines


def macro(head: str, rows: list[str]) -> str:
    """A table in lines of at most 120."""
    return ' \\\n  '.join([f'#define {head}(ROW)', *packed(rows, 115)]) + '\n'


def names_header() -> str:
    groups = grouped(table())
    plain = [f'ROW({name})' for meant, names in groups.items() for name in names
             if not is_loader(name, meant) and not is_of_loader(meant) and not is_of_callback(meant)]
    loaders = [f'ROW({name}, {meant})' for meant, names in groups.items() for name in names if is_loader(name, meant)]
    of_loaders = [f'ROW({name})' for meant, names in groups.items() for name in names if is_of_loader(meant)]
    of_callbacks = [f'ROW({name})' for meant, names in groups.items() for name in names if is_of_callback(meant)]
    kinds = '\n'.join(macro(f'FULGURITE_NEAR_MISSES_OF_{kind}', [f'ROW({name})' for name in names])
                      for kind, names in of_policies().items())
    return f'''#pragma once
// Written by tools/near_misses.py: the names that look like hooks and are not. What each one means is in
// diagnose/near_miss_refusals.hpp.

// clang-format off
{macro('FULGURITE_NEAR_MISSES', plain)}
// The same for the loaders of a data module, each with the name that is meant: a class that has both may use such a
// name for a member.
{macro('FULGURITE_LOADER_NEAR_MISSES', loaders)}
// Names that look like functions of a loader; only loaders are checked for them.
{macro('FULGURITE_NEAR_MISSES_OF_LOADERS', of_loaders)}
// Names that look like a callback's functions for files; only callbacks are checked for them.
{macro('FULGURITE_NEAR_MISSES_OF_CALLBACKS', of_callbacks)}
// The same for optimizers, schedules and strategies; only classes of that kind are checked.
{kinds}// clang-format on
'''


MOST_NAMES = 4  # of one meaning in a row


def sentence(name: str) -> list[str]:
    """The refusal of one name, in lines of a macro: a macro for it would be one more that compilers print."""
    return [f'template <> struct About<HookId::{name}> {{ template <bool, class Whom> static consteval auto judge() {{',
            f'  static_assert(judge::accepts<typename Whom::Subject>, '
            f'FULGURITE_NEAR #{name} FULGURITE_USE MEANT); }} }};']


def sentence_macro(count: int) -> str:
    names = [f'NAME{at}' for at in range(1, count + 1)]
    head = f'#define FULGURITE_NEAR_{count}(MEANT, {", ".join(names)})'
    return ' \\\n  '.join([head, *(line for name in names for line in sentence(name))])


def sentence_rows(meant: str, names: list[str]):
    """Rows with as many names as fit into a line."""
    while names:
        rows = (f'FULGURITE_NEAR_{count}("{meant}", {", ".join(names[:count])})'
                for count in range(min(MOST_NAMES, len(names)), 0, -1))
        row = next(row for row in rows if len(row) <= 120 or row.startswith('FULGURITE_NEAR_1('))
        yield row
        names = names[row.count(',') - meant.count(','):]


def sentences_header() -> str:
    meant = table()
    for names in of_policies().values():
        meant |= names
    macros = '\n'.join(map(sentence_macro, range(1, MOST_NAMES + 1)))
    rows = '\n'.join(packed([row for what, names in grouped(meant).items() for row in sentence_rows(what, names)], 120))
    undefined = '\n'.join(f'#undef FULGURITE_NEAR_{count}' for count in range(1, MOST_NAMES + 1))
    return f'''#pragma once
// Written by tools/near_misses.py: what is meant by each name of hook/near_miss_names.hpp. Rows are macros of their
// own, and none of these uses another, since compilers print every macro between a sentence and the program.

#pragma GCC system_header  // keeps the macros out of g++'s trace

#include <fulgurite/diagnose/rule.hpp>

namespace fulgurite::refusal {{

// clang-format off
#define FULGURITE_NEAR "[fulgurite.hook.near_miss] "
#define FULGURITE_USE " is not a hook and would never be called: use "
{macros}
{rows}
{undefined}
#undef FULGURITE_USE
#undef FULGURITE_NEAR
// clang-format on

}}  // namespace fulgurite::refusal
'''


def files() -> dict[pathlib.Path, str]:
    return {INCLUDE / 'hook' / 'near_miss_names.hpp': names_header(),
            INCLUDE / 'diagnose' / 'near_miss_refusals.hpp': sentences_header()}


if __name__ == '__main__':
    if sys.argv[1:] != ['write']:
        sys.exit(__doc__)
    for path, text in files().items():
        path.write_text(text)
    print(f'{len(table())} names')
