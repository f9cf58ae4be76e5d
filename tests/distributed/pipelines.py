"""Starts the staged program as one process and as a pipeline of several, and compares what they come to; prints TAP.

    pipelines.py STAGED [--only REGEX]

One process takes the micro batches one after another, and steps after each so many of them; a pipeline has to end with
the bits of that."""

import csv

import ranks
from ranks import case, need

ranks.CASES.clear()  # of the other program


def known(start, rank=0):
    """What a rank wrote at its end, and the values of its validations."""
    return (start.out / f'rank{rank}').read_text().splitlines()


def rows(start):
    """The rows that rank 0 logged, as a list of the cells of each column."""
    columns = {}
    [file] = start.out.rglob('metrics.csv')
    with file.open() as table:
        for row in csv.DictReader(table):
            for name, cell in row.items():
                if cell and name not in ('epoch', 'step'):
                    columns.setdefault(name, []).append(cell)
    return columns


def weights(start, rank=0):
    return [line for line in known(start, rank) if not line.startswith(('val', 'losses', 'skipped', 'ends'))]


def agrees(start, single, world):
    for rank in range(world):
        need(len(weights(start, rank)) > 15, f'rank {rank} wrote no weights')
        need(weights(start, rank) == weights(single), f'rank {rank} has other bits than one process')
    values = [line for line in known(single) if line.startswith('val')]
    need(values, 'one process has no validation')
    for rank in range(world):
        # The pipeline validates once more, when the fit is over.
        mine = [line for line in known(start, rank) if line.startswith('val')]
        need(mine[:-1] == values, f'rank {rank} has other values of validation: {mine} {values}')
        need(mine[-1] == mine[-2], f'rank {rank}: validate gives {mine[-1]}, the last validation of the fit {mine[-2]}')
    one, several = rows(single), rows(start)
    need(set(one) == set(several), f'other columns: {sorted(one)} and {sorted(several)}')
    several['val/loss'].pop()  # of validate
    need(several == one, f'{one} of one process, {several} of the pipeline')


@case
def lists_of_stages_cuts_of_batches_and_shares_without_processes(lab):
    lab.single('--pieces', '1')


@case
def two_and_four_processes_have_the_bits_of_one(lab):
    single = lab.single('--single', '1')
    for world in 1, 2, 4:
        for schedule in '1f1b', 'gpipe':
            start = lab.own(world, '--schedule', schedule, env={'OMP_NUM_THREADS': '1'})  # as the single one
            agrees(start.fine(), single, world)


@case
def clipping_is_over_all_stages(lab):
    single = lab.single('--single', '1', '--clip', '1')
    need(weights(single) != weights(lab.single('--single', '1')), 'clipping makes no difference')
    for world in 2, 4:
        agrees(lab.own(world, '--clip', '1').fine(), single, world)


@case
def windows_of_several_batches_and_batches_that_do_not_come_out_even(lab):
    agrees(lab.own(2, '--accumulate', '2').fine(), lab.single('--single', '1', '--accumulate', '2'), 2)
    # The last window of an epoch has one batch. A file inside a window brings all gradients together, which must not
    # count twice in the norm of what follows; nor may those that a run goes on from.
    words = '--accumulate', '2', '--clip', '1'
    single = lab.single('--single', '1', *words)
    start = lab.own(2, *words, '--within', '1').fine()
    for rank in range(2):
        need(weights(start, rank) == weights(single), f'rank {rank} has other bits, with files inside of windows')
    for batch in 1, 4:
        [file] = start.out.glob(f'within{batch}*')
        again = lab.own(2, *words, '--from', str(file)).fine()
        need(weights(again) == weights(single), f'going on from batch {batch} has other bits')
    # 41 rows in batches of 16: the last has 9, in micro batches of 3 where the others have 6, 5, 5.
    start = lab.own(2, '--micro', '3', '--rows', '41').fine()
    need(weights(start) == weights(start, 1), 'other bits in rank 1')


@case
def a_balance_is_taken_and_a_wrong_one_refused(lab):
    single = lab.single('--single', '1')
    for balance in '49', '94':
        agrees(lab.own(2, '--balance', balance).fine(), single, 2)
    lab.ends(2, '--balance', '48', says=['fulgurite.pipeline.balance', 'does not share 13 stages between 2'])


@case
def stages_without_gradients(lab):
    agrees(lab.own(4, '--frozen', '1').fine(), lab.single('--single', '1', '--frozen', '1'), 4)


@case
def one_file_is_gone_on_with_by_any_number_of_processes(lab):
    whole = lab.single('--single', '1')
    start = lab.own(4).fine()
    [file] = (start.out / 'files').glob('*step=4.*')
    for world in 2, 4:
        again = lab.own(world, '--from', str(file)).fine()
        for rank in range(world):
            need(weights(again, rank) == weights(whole), f'{world} processes: rank {rank} has other bits')
            need('ends 0x1p+4' in known(again, rank), f'{world} processes: rank {rank} has lost what its model keeps')
        last = rows(whole)['train/loss_epoch'][-1]
        need(rows(again)['train/loss_epoch'] == [last], f'{world} processes: another mean of the epoch')
    # Of batches that are not cut, one process counts as many.
    whole = lab.single('--single', '1', '--micro', '1')
    start = lab.own(4, '--micro', '1').fine()
    [file] = (start.out / 'files').glob('*step=4.*')
    alone = lab.single('--single', '1', '--micro', '1', '--from', str(file))
    need(weights(alone) == weights(whole), 'one process that goes on has other bits')


@case
def what_is_no_pipeline_is_refused(lab):
    lab.ends(2, '--outside', '1', says=['fulgurite.pipeline.outside', "'outside.weight'"])
    lab.ends(2, '--again', '1', says=['fulgurite.pipeline.twice'])
    lab.ends(2, '--unused', '1', says=['fulgurite.pipeline.unused'])
    lab.ends(2, '--catches', '1', says=['fulgurite.pipeline.caught'])
    lab.ends(2, '--predict', '1', says=['fulgurite.pipeline.predict'])
    lab.ends(2, '--hook', '1', says=['fulgurite.pipeline.hook', 'has old weights'])
    lab.ends(2, '--penalty', '1', says=['fulgurite.pipeline.other_stages', "'layers.0.weight', which rank 0 trains"])
    lab.ends(2, '--alone', '1', says=['fulgurite.pipeline.metric'])
    lab.ends(2, '--balance', '3:', '--fault', 'wide:0:1', says=['fulgurite.pipeline.activation', 'of 10 dimensions'])
    lab.ends(2, '--differs', '1', says=['fulgurite.pipeline.other_batch', 'rank 1 has another batch'])


@case
def a_process_that_fails_ends_the_others_with_its_name(lab):
    for rank in 0, 1, 2:
        start = lab.ends(3, '--balance', '355', '--fault', f'throw:{rank}:1',
                         says=[f'rank {rank} ended: the third disk', 'fulgurite.pipeline.file'])
        need(not list((start.out / 'rescue').glob('*.safetensors')), 'a file was written that lacks stages')
        need('lost' not in start.stderr, start.stderr)
        killed = lab.own(3, '--balance', '355', '--fault', f'kill:{rank}:1').wait()
        need(killed.code != 0 and killed.took < 15, f'it returned {killed.code} after {killed.took:.1f} s')
        if rank != 0:
            killed.said(f'rank {rank} ended: it was killed by signal 9')
    lab.ends(3, '--balance', '355', '--fault', 'stop:1:1', '--timeout', '2000', says=['These ranks did not come: 1'])


@case
def one_process_that_fails_has_all_of_the_model_and_leaves_its_file(lab):
    start = lab.ends(1, '--fault', 'throw:0:1', says=['the third disk'])
    need(list((start.out / 'rescue').glob('*.safetensors')), 'no file was written')


@case
def a_gradient_that_is_no_number_is_everybodys(lab):
    for rank in 0, 1, 2:
        words = '--balance', '355', '--fault', f'nan:{rank}:1'
        start = lab.ends(3, *words, says=['fulgurite.loop.non_finite', 'a gradient is not finite on rank'])
        need(list((start.out / 'rescue').glob('*.safetensors')), 'nothing was rescued')  # all ranks were there
        start = lab.own(3, *words, '--skip', '1').fine()
        for other in range(3):
            need('skipped 0x1p+0' in known(start, other), f'rank {other} has not left out one step')
            need(weights(start, other) == weights(start), f'rank {other} has other bits')


if __name__ == '__main__':
    ranks.main()
