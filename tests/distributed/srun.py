"""Stands in for SLURM's srun on one machine: starts so many tasks of a program, with the variables that srun sets.

    srun.py --ntasks N PROGRAM ARGUMENTS

A task that fails ends the others, as --kill-on-bad-exit does."""

import os
import signal
import socket
import subprocess
import sys

count, program = int(sys.argv[2]), sys.argv[3:]
with socket.socket() as one:  # a port that is free, since another run may have that of the job
    one.bind(('127.0.0.1', 0))
    port = one.getsockname()[1]
host = socket.gethostname()
step = {'SLURM_JOB_ID': '4711', 'SLURM_STEP_ID': '0', 'SLURM_STEPID': '0', 'SLURM_NTASKS': str(count),
        'SLURM_STEP_NUM_TASKS': str(count), 'SLURM_NNODES': '1', 'SLURM_STEP_NUM_NODES': '1', 'SLURM_NODEID': '0',
        'SLURM_NODELIST': host, 'SLURM_STEP_NODELIST': host, 'MASTER_PORT': str(port)}
tasks = [subprocess.Popen(program, env=os.environ | step | {'SLURM_PROCID': str(rank), 'SLURM_LOCALID': str(rank)})
         for rank in range(count)]
left, status = {task.pid for task in tasks}, 0
while left:
    pid, ended = os.wait()
    left.discard(pid)
    if ended != 0 and status == 0:
        status = os.waitstatus_to_exitcode(ended)
        for other in left:
            os.kill(other, signal.SIGTERM)
sys.exit(status if status >= 0 else 128 - status)
