// SPDX-License-Identifier: GPL-2.0
/*
 * objects DEVICE GID-INDEX ah|pd|mr|mw|qp N: makes N objects of a kind between two lines of input.
 * Prints "made" when it has.
 */
#include "loop.h"

static struct loop l;

static void *make(const char *kind)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1,
		.grh = { .dgid = l.gid, .sgid_index = l.gid_index, .hop_limit = 1 } };
	struct ibv_qp_init_attr ia = { .send_cq = l.cq[0], .recv_cq = l.cq[0], .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (!strcmp(kind, "ah"))
		return ibv_create_ah(l.pd, &to);
	if (!strcmp(kind, "pd"))
		return ibv_alloc_pd(l.ctx);
	if (!strcmp(kind, "mr"))
		return ibv_reg_mr(l.pd, l.buf, 8, 0);
	if (!strcmp(kind, "mw"))
		return ibv_alloc_mw(l.pd, IBV_MW_TYPE_1);
	return ibv_create_qp(l.pd, &ia);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	loop_open(&l, argv[1], atoi(argv[2]));
	l.cq[0] = ibv_create_cq(l.ctx, 1, NULL, NULL, 0);
	if (!l.cq[0])
		loop_die("create cq");
	puts("begin");
	fflush(stdout);
	getchar();
	for (int i = 0; i < atoi(argv[4]); i++)
		if (!make(argv[3]))
			loop_die(argv[3]);
	puts("made");
	fflush(stdout);
	getchar();
	/* The end of the process destroys them. */
	_exit(0);
}
