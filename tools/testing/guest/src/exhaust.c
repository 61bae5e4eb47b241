// SPDX-License-Identifier: GPL-2.0
/*
 * exhaust DEVICE GID-INDEX ah|pd|mr|mw [N]: makes objects of a kind, N or until that is refused.
 * Prints how many were made, and the error; "made" if there was none, and then waits for a line.
 * Memory of the process is there before, so that it wants no more when nothing is left.
 */
#include "loop.h"
#include <malloc.h>
#include <sys/mman.h>

enum { MOST = 400000, HEAP = 24 << 20 };

static struct loop l;

static void *make(const char *kind)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1,
		.grh = { .dgid = l.gid, .sgid_index = l.gid_index, .hop_limit = 1 } };

	if (!strcmp(kind, "ah"))
		return ibv_create_ah(l.pd, &to);
	if (!strcmp(kind, "pd"))
		return ibv_alloc_pd(l.ctx);
	if (!strcmp(kind, "mr"))
		return ibv_reg_mr(l.pd, l.buf, 8, 0);
	return ibv_alloc_mw(l.pd, IBV_MW_TYPE_1);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int most = argc > 4 ? atoi(argv[4]) : MOST, made = 0;

	loop_open(&l, argv[1], atoi(argv[2]));
	printf("begin\n");
	fflush(stdout);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 0);
	if (argc == 4) {
		char *heap = malloc(HEAP);
		memset(heap, 1, HEAP);
		free(heap);
	}
	/* Nor its code, which would be read again. */
	if (mlockall(MCL_CURRENT))
		loop_die("mlockall");
	getchar();
	while (made < most && make(argv[3]))
		made++;
	printf("%d %s, then: %s (%d)\n", made, argv[3], made < most ? strerror(errno) : "made", made < most ? errno : 0);
	fflush(stdout);
	if (made == most)
		getchar();
	/* The kernel's lists are long, and the process ends anyway. */
	_exit(0);
}
