/* SPDX-License-Identifier: GPL-2.0 */
/* What a case came to, a line each: "ok NAME" or "not ok NAME: why". */
#include <stdio.h>

static int bad;

static void result(const char *name, long got, long want)
{
	if (got == want)
		printf("ok %s\n", name);
	else
		printf("not ok %s: %ld, not %ld\n", name, got, want);
	fflush(stdout);
	bad |= got != want;
}
