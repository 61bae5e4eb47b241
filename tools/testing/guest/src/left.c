// SPDX-License-Identifier: GPL-2.0
/*
 * left DEVICE: keeps queues mapped beyond the end of their device, which somebody else
 * brings about. Not a byte of them may change then: they belong to this process alone,
 * and what the kernel writes into memory that it frees, users may not see. (They could
 * change it as well.) Exit 0: all as it was; 1: it could not begin; 2: not so.
 */
#include "loop.h"
#include <sys/mman.h>
#include "rings.h"

enum { PAIRS = 20 };

static void *copies[RINGS];

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(name, ibv_get_device_name(list[i])))
			return ibv_open_device(list[i]);
	return NULL;
}

static void make(struct ibv_context *ctx, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 100, NULL, NULL, 0);
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 100, .max_sge = 1 } };
	struct ibv_qp_init_attr ia = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (!cq || !ibv_create_srq(pd, &sa) || !ibv_create_qp(pd, &ia))
		loop_die("create queues");
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx = argc == 2 ? open_device(argv[1]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	int bad = 0;

	if (!pd)
		loop_die("open the device");
	for (int i = 0; i < PAIRS; i++)
		make(ctx, pd);
	rings_note();
	if (ring_count < 4 * PAIRS)
		loop_die("find the queues");
	for (int i = 0; i < ring_count; i++)
		if (!(copies[i] = malloc(rings[i].len)) || !memcpy(copies[i], (void *)rings[i].at, rings[i].len))
			loop_die("copy the queues");
	puts("ready");
	fflush(stdout);
	while ((pd = ibv_alloc_pd(ctx)))
		ibv_dealloc_pd(pd), usleep(10000);
	/* The kernel frees some of it late. */
	for (int i = 0; i < 20 && !bad; i++, usleep(50000)) {
		rings_changed("left");
		for (int r = 0; r < ring_count; r++)
			bad += !!memcmp(copies[r], (void *)rings[r].at, rings[r].len);
	}
	printf("%d queues, %d of them changed\n", ring_count, bad);
	return bad ? 2 : 0;
}
