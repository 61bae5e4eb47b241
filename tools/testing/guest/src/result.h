/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the cases of a program came to, a line each: "ok NAME" or "not ok NAME: why", or
 * "skip NAME: why" for one that cannot be tried. After the last case main returns ended(): only
 * its line "end" tells a program with a failed case from one that died (cases_of in rdma.sh).
 */
#ifndef RESULT_H
#define RESULT_H

#include <stdio.h>

static int bad;
/* Precedes the names of cases. */
static const char *prefix = "";

static inline void result_why(const char *name, int ok, const char *why, long got, long want)
{
	if (ok)
		printf("ok %s%s\n", prefix, name);
	else
		printf("not ok %s%s: %s%ld, not %ld\n", prefix, name, why, got, want);
	fflush(stdout);
	bad |= !ok;
}

static inline void result(const char *name, long got, long want)
{
	result_why(name, got == want, "", got, want);
}

static inline int ended(void)
{
	puts("end");
	return bad;
}

#endif
