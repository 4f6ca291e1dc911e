"""Runs several commands of Airflow's command line in one process: importing it takes most of the time of each.

One command a line on standard input, words as in a shell.
"""

import shlex
import sys

from airflow.cli.cli_parser import get_parser

parser = get_parser()
for line in sys.stdin:
    arguments = parser.parse_args(shlex.split(line))
    arguments.func(arguments)
