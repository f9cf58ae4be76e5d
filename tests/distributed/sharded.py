"""Starts the program of sharded.cpp with the state in parts, with all of it in each process, and in one process, and
compares; prints TAP.

    sharded.py PROGRAM [--only REGEX]"""

import pathlib
import re

import ranks
from ranks import apart, need

CASES = []


def case(function):
    CASES.append(function)
    return function


def weights(start):
    return [[float.fromhex(word) for word in line.split()] for line in start.steps()]


@case
def each_step_has_the_bits_of_processes_that_keep_all(lab):
    for optimizer in 'sgd', 'adam', 'adamw', 'two', 'captured':
        for world, engine in ((2, 'gloo'), (4, 'ordered'))[:1 if optimizer in ('two', 'captured') else 2]:
            words = '--optimizer', optimizer, '--engine', engine, '--batch', str(8 // world)
            whole = lab.own(world, '--strategy', 'ddp', *words).fine().alike().steps()
            parts = lab.own(world, *words).fine().alike().steps()
            need(len(parts) == 12 and parts == whole, f'{optimizer}, {world} ranks on {engine}: other bits')


@case
def gloo_sums_the_same_gradients_in_the_same_order(lab):
    whole = lab.own(4, '--strategy', 'ddp', '--batch', '2').fine().alike().steps()
    need(lab.own(4, '--batch', '2').fine().alike().steps() == whole, 'other bits')


@case
def clipping_accumulation_and_skipped_updates_have_the_same_bits(lab):
    plain = lab.own(2).fine().steps()
    for world, words in ((2, ('--clip', '1')), (4, ('--clip', '1', '--accumulate', '2')), (2, ('--infinite', '3')),
                         (2, ('--accumulate', '3', '--infinite', '4')), (2, ('--infinite', '3', *ranks.SMALL))):
        words = '--engine', 'ordered', '--batch', str(8 // world), '--optimizer', 'adamw', *words
        whole = lab.own(world, '--strategy', 'ddp', *words).fine().alike().steps()
        parts = lab.own(world, *words).fine().alike().steps()
        need(parts == whole and parts != plain, f'{words}: other bits')
        if '--infinite' in words and '--accumulate' not in words:
            need(parts[3] == parts[2] != parts[4], 'the update was not left out')


@case
def each_rank_keeps_its_part_of_the_moments(lab):
    # 181 parameters in four slices of 128, 32, 32 and 16 numbers: 208, and parts of whole slices of 16.
    for world, part in (1, 208), (2, 112), (4, 64):
        for optimizer, moments in ('sgd', 1), ('adam', 2):
            said = lab.own(world, '--optimizer', optimizer, '--batch', str(8 // world)).fine().stdout
            kept = dict(re.findall(r'rank (\d) keeps (\d+) numbers', said))
            need(kept == {str(rank): str(moments * part) for rank in range(world)}, f'{world} ranks keep {kept}')
    whole = lab.own(2, '--strategy', 'ddp').fine().stdout
    need(re.findall(r'keeps (\d+) numbers', whole) == ['416', '416'], whole)


@case
def a_step_gathers_once_what_ranks_have_updated(lab):
    start = lab.own(2, '--accumulate', '2').fine()
    need('6 all-reduces' in start.stdout, start.stdout)
    # 224 floats after each of 6 steps, and for each of two files two moments of as many.
    need('10 all-gathers of parameters and states, 8960 bytes' in start.stdout, start.stdout)


class Run:
    """A run of some strategy and number of processes with global batches of 8 samples, whole or from a file."""

    def __init__(self, lab, strategy, world, file=None, epochs=2):
        self.keeps = pathlib.Path(lab.folder) / f'{strategy}{world}{file.stem if file else ""}{epochs}'
        self.end = pathlib.Path(lab.folder) / f'{strategy}{world}{epochs}.safetensors'
        words = ['--strategy', strategy, '--batch', str(8 // world), '--keeps', str(self.keeps), '--clip', '1',
                 '--epochs', str(epochs), '--saves', str(self.end)]
        if file:
            words += ['--from', str(file)]
        if strategy == 'single':
            self.start = lab.single(*words)
        else:
            self.start = lab.own(world, '--engine', 'ordered', *words).fine().alike()
        self.steps = self.start.steps()

    def file(self, step):
        return next(self.keeps.glob(f'*step={step}.safetensors'))


@case
def from_a_file_the_same_number_goes_on_with_the_same_bits(lab):
    whole = Run(lab, 'sharded', 2)
    plain = Run(lab, 'ddp', 2)
    need(len(whole.steps) == 12 and whole.steps == plain.steps, 'other bits')
    for step in 3, 9:
        for before, then in (whole, 'sharded'), (whole, 'ddp'), (plain, 'sharded'):
            again = Run(lab, then, 2, before.file(step)).steps
            need(again == whole.steps[step:], f'{then} from step {step}: other bits')


@case
def from_a_file_any_number_goes_on(lab):
    two = Run(lab, 'sharded', 2)
    file = Run(lab, 'sharded', 2, epochs=1).end  # another number goes on between epochs
    four = Run(lab, 'sharded', 4, file)
    need(four.steps == Run(lab, 'ddp', 4, file).steps, 'four that keep a part each have other bits than four')
    for other in four, Run(lab, 'single', 1, file):
        far = apart(weights(other.start), weights(two.start)[6:])
        need(far < 2e-5, f'{other.start.world} processes: {far}')
    alone = Run(lab, 'single', 1)
    back = Run(lab, 'sharded', 2, Run(lab, 'single', 1, epochs=1).end)
    far = apart(weights(back.start), weights(alone.start)[6:])
    need(far < 2e-5, f'from one process to two: {far}')


@case
def a_rank_that_does_not_come_for_its_part_is_named(lab):
    says = 'fulgurite.distributed.timeout', 'gathering parts of all ranks', 'did not come: 1'
    lab.ends(2, '--timeout', '3000', '--stops', '2', says=says)


@case
def a_file_that_cannot_be_written_is_an_error_of_all(lab):
    lab.ends(2, '--saves', '/proc/none/a.ckpt', says=['rank 0 could not write /proc/none/a.ckpt', r'\[rank 1\] \['])


if __name__ == '__main__':
    ranks.main(CASES)
