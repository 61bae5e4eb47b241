# SPDX-License-Identifier: GPL-2.0
"""Threads whose exceptions are not lost: Python itself prints them and exits with 0."""
import threading


def together(calls):
    """Runs the calls in a thread each until all have returned. Then raises the first exception
    that one of them ended with."""
    errors = []

    def run(call):
        try:
            call()
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
