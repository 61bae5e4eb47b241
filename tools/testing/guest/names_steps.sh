# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# names_steps.sh DIR: see netns_names.py; a script for on_both_cores.
exec python3 ./netns_names.py "$1"
